"""Many seeds, over several processes, resumable; and the report about them."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

from extender import __version__
from simulator.invariants.invariant import Invariant
from simulator.options import MEANINGS, FaultClass, Options
from simulator.runner import simulate

SEEDS_EACH = 20
"""Seeds after which a process makes room for a fresh one."""


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What is kept of one run. `command` tells which run it was, so that another state file is not mistaken for it."""

    seed: int
    command: str
    broken: list[str]
    digest: str
    injected: dict[str, int]
    checked: dict[str, int]
    windows: dict[str, int]
    pods: int


def run_seed(options: Options) -> SeedResult:
    """One run; in a process of its own when there are many."""
    outcome = simulate(options)
    return SeedResult(
        options.seed,
        options.command,
        [f"{one.promise}: {one.text}" for one in outcome.broken],
        outcome.digest,
        dict(sorted(outcome.injected.items())),
        dict(sorted(outcome.checked.items())),
        dict(sorted(outcome.windows.items())),
        outcome.pods,
    )


def run_seeds(
    wanted: Sequence[Options], jobs: int, state: Path | None, tell: Callable[[SeedResult], None]
) -> list[SeedResult]:
    """Every seed, those that `state` has already left out; in the order of the seeds. `tell` hears of each at once."""
    commands = {options.command for options in wanted}
    found = {one.seed: one for one in _read(state) if one.command in commands}
    for result in _run([options for options in wanted if options.seed not in found], jobs):
        found[result.seed] = result
        if state is not None:
            with state.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(result)) + "\n")
        tell(result)
    return [found[seed] for seed in sorted(found)]


def _run(wanted: Sequence[Options], jobs: int) -> Iterator[SeedResult]:
    """Each as soon as it is there. A pool for every few seeds: `max_tasks_per_child` hangs (CPython gh-115634)."""
    for first in range(0, len(wanted), jobs * SEEDS_EACH):
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool:
            running = [pool.submit(run_seed, options) for options in wanted[first : first + jobs * SEEDS_EACH]]
            yield from (future.result() for future in as_completed(running))


def _end_with_parent() -> None:
    """A worker of `concurrent.futures` outlives a parent that is killed, and works on for nobody."""
    Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def report(wanted: Sequence[Options], slurm: str, faults: str, results: list[SeedResult], date: str) -> str:
    """The page about a campaign; `slurm` and `faults` are how they were asked for."""
    common = wanted[0]
    chosen = {one: [options for options in wanted if one in options.faults] for one in FaultClass}
    injected, checked, windows = Counter[str](), Counter[str](), Counter[str]()
    for one in results:
        injected += Counter(one.injected)
        checked += Counter(one.checked)
        windows += Counter(one.windows)
    failing = [one for one in results if one.broken]
    lines = [
        "# The simulator's seeds",
        "",
        "<!-- Written by `slurm-extender simulate --report`. -->",
        f"{len(results)} seeds, {min(one.seed for one in results)} to {max(one.seed for one in results)}, on {date}: "
        f"{len(results) - len(failing)} kept every promise, {len(failing)} did not.",
        "",
        f"* Each: at most {common.pods} Pods on {common.nodes} nodes, {common.days:g} days of work and trouble, "
        f"faults `{faults}`; {sum(one.pods for one in results)} Pods in all.",
        f"* slurm-extender {__version__}, simulated Slurm {_releases(wanted)}, CPython {platform.python_version()}.",
        "* One of them again: "
        f"`slurm-extender simulate --seed SEED --pods {common.pods} --nodes {common.nodes} --days {common.days:g} "
        f"{slurm}--faults {faults}`.",
        "",
        "| promise | checks | seeds that broke it |",
        "|---|---|---|",
        *(f"| {one} | {checked[one]} | {_breakers(failing, one)} |" for one in Invariant),
        "",
        "| faults | meaning | seeds | injected |",
        "|---|---|---|---|",
        *(
            f"| `{one}` | {MEANINGS[one]} | {len(chosen[one])} | {_sum(injected, one)} |"
            for one in FaultClass
            if chosen[one]
        ),
        "",
        "Starts on a node beside a Pod whose job is over, where no fence could have held, by cause: "
        + (", ".join(f"{cause} {count}" for cause, count in sorted(windows.items())) or "none")
        + ".",
    ]
    return "\n".join(lines) + "\n"


def _releases(wanted: Sequence[Options]) -> str:
    counts = Counter(options.slurm for options in wanted)
    return ", ".join(f"{release} ({count} seed{'s' * (count != 1)})" for release, count in counts.items())


def _sum(injected: Counter[str], kind: FaultClass) -> int:
    return sum(count for name, count in injected.items() if name.startswith(f"{kind}: "))


def _breakers(failing: list[SeedResult], promise: Invariant) -> str:
    seeds = [str(one.seed) for one in failing if any(text.startswith(promise) for text in one.broken)]
    return ", ".join(seeds) or "none"


def _read(state: Path | None) -> Iterator[SeedResult]:
    if state is None or not state.exists():
        return
    for line in state.read_text(encoding="utf-8").splitlines():
        yield SeedResult(**json.loads(line))
