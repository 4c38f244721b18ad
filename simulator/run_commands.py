"""Execute the command `slurm-extender simulate`."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from pathlib import Path

import click

from simulator.campaign import SeedResult, report, run_seeds
from simulator.options import (
    DAY_S,
    Options,
    read_faults,
    read_naming,
    read_release,
    say_foreign,
    say_gangs,
    say_naming,
    say_release,
)
from simulator.progress import progress_lines
from simulator.runner import simulate


def run_one(
    seed: int | None,
    faults: str,
    *,
    pods: int,
    nodes: int,
    days: float,
    slurm: str,
    names: str,
    foreign: int,
    gangs: int,
    event_log: Path | None,
    **_: object,
) -> bool:
    """Run one seed, print its summary, and return whether every invariant held. Raises ValueError."""
    seed = secrets.randbelow(10**6) if seed is None else seed
    kinds, release, naming = read_faults(faults, seed), read_release(slurm, seed), read_naming(names, seed)
    options = Options(seed, pods, nodes, days, kinds, release, naming, foreign, gangs)
    with progress_lines(days * DAY_S) as watch:
        outcome = simulate(options, watch)
    click.echo(outcome.summary, nl=False)
    if event_log is not None:
        event_log.write_text(outcome.event_log, encoding="utf-8")
    click.echo(outcome.report, nl=False)
    return not outcome.violations


def run_many(
    seeds: str,
    faults: str,
    *,
    pods: int,
    nodes: int,
    days: float,
    slurm: str,
    names: str,
    foreign: int,
    gangs: int,
    jobs: int,
    state: Path | None,
    report: Path | None,
    **_: object,
) -> bool:
    """Run the seeds `FROM:TO` and return whether every invariant held. Raises ValueError."""
    bounds = re.fullmatch(r"(\d+):(\d+)", seeds)
    if bounds is None or int(bounds[1]) >= int(bounds[2]):
        raise ValueError(f"seeds: {seeds!r} is not FROM:TO, two whole numbers of which the first is the smaller")
    chosen = range(int(bounds[1]), int(bounds[2]))

    def options(seed: int) -> Options:
        kinds, release, naming = read_faults(faults, seed), read_release(slurm, seed), read_naming(names, seed)
        return Options(seed, pods, nodes, days, kinds, release, naming, foreign, gangs)

    wanted = [options(seed) for seed in chosen]
    results = run_seeds(wanted, jobs, state, _notify)
    failing = [one for one in results if one.violations]
    click.echo(f"{len(results)} seeds, {len(failing)} violated an invariant")
    if report is not None:
        _write(
            report,
            wanted,
            say_release(slurm) + say_naming(names) + say_foreign(foreign) + say_gangs(gangs),
            faults,
            results,
        )
    return not failing


def _write(path: Path, wanted: list[Options], slurm: str, faults: str, results: list[SeedResult]) -> None:
    date = datetime.now(UTC).strftime("%Y-%m-%d")  # noqa: TID251
    path.write_text(report(wanted, slurm, faults, results, date), encoding="utf-8")


def _notify(result: SeedResult) -> None:
    click.echo(f"seed {result.seed}: " + ("; ".join(result.violations) or "no violation"))
