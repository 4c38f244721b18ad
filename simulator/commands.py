"""Run the extender in a simulated cluster: the commands `demo` and `simulate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click


@click.command(short_help="Watch the extender in a simulated cluster")
def demo() -> None:
    """Run the extender against a simulated Kubernetes and Slurm on this machine for one minute."""
    from simulator.demo.program import DemoFailed, run  # noqa: PLC0415 - `--help` needs none of it

    try:
        run(sys.stdout)
    except DemoFailed as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        sys.exit(130)


@click.command(short_help="Test the extender on a simulated cluster")
@click.option("--seed", type=int, help="Seed of the run; equal seeds give equal runs. Default: random.")
@click.option("--seeds", metavar="FROM:TO", help="Run several seeds, TO not included, and print one line for each.")
@click.option("--pods", default=30, show_default=True, type=click.IntRange(min=1), help="Maximum number of Pods.")
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(min=1), help="Nodes of 16 CPUs.")
@click.option(
    "--days",
    default=0.02,
    show_default=True,
    type=click.FloatRange(min=0.001),
    help="Virtual days of load and faults.",
)
@click.option(
    "--slurm",
    default="26.05.5",
    show_default=True,
    metavar="RELEASE",
    help="Slurm release, from 23.11 to 26.05; `each` selects one by the seed.",
)
@click.option(
    "--names",
    default="same",
    show_default=True,
    help="Map Nodes to Slurm nodes by name (same), by label, or by the slurmd Pod (slurmd); `each` selects one "
    "by the seed.",
)
@click.option(
    "--foreign",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Maximum number of Pods that another scheduler binds; Slurm holds their resources (foreignPods).",
)
@click.option(
    "--gangs",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Maximum number of gangs of 2 to as many members as there are nodes, each node with the fence script.",
)
@click.option(
    "--faults",
    default="all",
    show_default=True,
    help="Faults: none, all, drawn (by the seed), or a comma-separated list of network, slurm, kubernetes, crashes, "
    "operators, clock, amnesia, stale, outages, epilogs, scope, replicas, restores.",
)
@click.option("--event-log", type=click.Path(path_type=Path), help="Write the event log to this file.")
@click.option(
    "--jobs", default=1, show_default=True, type=click.IntRange(min=1), help="With --seeds: worker processes."
)
@click.option(
    "--state", type=click.Path(path_type=Path), help="With --seeds: store results here, skip seeds that it has."
)
@click.option("--report", type=click.Path(path_type=Path), help="With --seeds: write a report to this file.")
def simulate(seed: int | None, seeds: str | None, faults: str, **given: Any) -> None:
    """Run the extender in a simulated cluster on virtual time and check its invariants.

    If an invariant is violated, print its events and the command that reproduces it, and exit with 1.
    """
    from simulator.run_commands import run_many, run_one  # noqa: PLC0415

    try:
        kept = run_one(seed, faults, **given) if seeds is None else run_many(seeds, faults, **given)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not kept:
        sys.exit(1)


BY_NAME = {"demo": demo, "simulate": simulate}
