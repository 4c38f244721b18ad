"""Run many seeds in several processes, resume where a run stopped, and write the report."""

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
"""Seeds per worker process."""


@dataclass(frozen=True, slots=True)
class SeedResult:
    """The result of one seed. `command` identifies the run, so that a state file of other options is ignored."""

    seed: int
    command: str
    violations: list[str]
    digest: str
    injected: dict[str, int]
    checked: dict[str, int]
    windows: dict[str, int]
    pods: int


def run_seed(options: Options) -> SeedResult:
    """Run one seed and return its result; several seeds run in worker processes."""
    outcome = simulate(options)
    return SeedResult(
        options.seed,
        options.command,
        [f"{one.invariant}: {one.text}" for one in outcome.violations],
        outcome.digest,
        dict(sorted(outcome.injected.items())),
        dict(sorted(outcome.checked.items())),
        dict(sorted(outcome.windows.items())),
        outcome.pods,
    )


def run_seeds(
    wanted: Sequence[Options], jobs: int, state: Path | None, notify: Callable[[SeedResult], None]
) -> list[SeedResult]:
    """Run every seed that `state` has no result of; return all results by seed. `notify` gets each new one."""
    commands = {options.command for options in wanted}
    found = {one.seed: one for one in _read(state) if one.command in commands}
    for result in _run([options for options in wanted if options.seed not in found], jobs):
        found[result.seed] = result
        if state is not None:
            with state.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(result)) + "\n")
        notify(result)
    return [found[seed] for seed in sorted(found)]


def _run(wanted: Sequence[Options], jobs: int) -> Iterator[SeedResult]:
    """Yield each result when it is ready. Each pool runs few seeds: `max_tasks_per_child` hangs (CPython gh-115634)."""
    for first in range(0, len(wanted), jobs * SEEDS_EACH):
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool:
            running = [pool.submit(run_seed, options) for options in wanted[first : first + jobs * SEEDS_EACH]]
            yield from (future.result() for future in as_completed(running))


def _end_with_parent() -> None:
    """End this worker with its parent: a worker of `concurrent.futures` outlives a parent that is killed."""
    Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def report(wanted: Sequence[Options], slurm: str, faults: str, results: list[SeedResult], date: str) -> str:
    """Return the page about a campaign; `slurm` and `faults` are the options as given on the command line."""
    common = wanted[0]
    chosen = {one: [options for options in wanted if one in options.faults] for one in FaultClass}
    injected, checked, windows = Counter[str](), Counter[str](), Counter[str]()
    for one in results:
        injected += Counter(one.injected)
        checked += Counter(one.checked)
        windows += Counter(one.windows)
    failing = [one for one in results if one.violations]
    lines = [
        "# Seeds of the simulator",
        "",
        "<!-- Written by `slurm-extender simulate --report`. -->",
        f"{len(results)} seeds, {min(one.seed for one in results)} to {max(one.seed for one in results)}, on {date}: "
        f"{len(results) - len(failing)} without a violation, {len(failing)} with one.",
        "",
        f"* Each: at most {common.pods} Pods on {common.nodes} nodes, {common.days:g} days of load and faults, "
        f"faults `{faults}`; {sum(one.pods for one in results)} Pods in all.",
        f"* slurm-extender {__version__}, simulated Slurm {_releases(wanted)}, CPython {platform.python_version()}.",
        "* To repeat one: "
        f"`slurm-extender simulate --seed SEED --pods {common.pods} --nodes {common.nodes} --days {common.days:g} "
        f"{slurm}--faults {faults}`.",
        "",
        "| invariant | checks | seeds that violated it |",
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


def _breakers(failing: list[SeedResult], invariant: Invariant) -> str:
    seeds = [str(one.seed) for one in failing if any(text.startswith(invariant) for text in one.violations)]
    return ", ".join(seeds) or "none"


def _read(state: Path | None) -> Iterator[SeedResult]:
    if state is None or not state.exists():
        return
    for line in state.read_text(encoding="utf-8").splitlines():
        yield SeedResult(**json.loads(line))
