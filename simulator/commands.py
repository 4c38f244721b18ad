"""Commands of `slurm-extender` that run the extender in a simulated cluster: `demo` and `simulate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click


@click.command()
def demo() -> None:
    """Show it: the extender against a simulated Kubernetes and Slurm, on this machine, for a minute."""
    from simulator.demo.program import DemoFailed, run  # noqa: PLC0415 - `--help` needs none of it

    try:
        run(sys.stdout)
    except DemoFailed as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        sys.exit(130)


@click.command()
@click.option(
    "--seed", type=int, help="The run: the same seed gives the same run to the byte. Without it, one is drawn."
)
@click.option("--seeds", metavar="FROM:TO", help="Many runs instead, TO not included; prints one line for each.")
@click.option("--pods", default=30, show_default=True, type=click.IntRange(min=1), help="Most Pods that are created.")
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(min=1), help="Nodes of 16 CPUs.")
@click.option(
    "--days",
    default=0.02,
    show_default=True,
    type=click.FloatRange(min=0.001),
    help="Virtual days of work and trouble.",
)
@click.option(
    "--slurm",
    default="26.05.5",
    show_default=True,
    metavar="RELEASE",
    help="Which Slurm, from 23.11 to 26.05; `each`: one after the other, by the seed.",
)
@click.option(
    "--names",
    default="same",
    show_default=True,
    help="Which Node is which node of Slurm: by the same name, a label, or the Pod of a slurmd (slurmd); `each`: one "
    "after the other, by the seed.",
)
@click.option(
    "--foreign",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Most Pods that another scheduler binds to the nodes; Slurm is to hold what they use (foreignPods).",
)
@click.option(
    "--faults",
    default="all",
    show_default=True,
    help="none, all, drawn (some, by the seed), or some of network,slurm,kubernetes,crashes,operators,clock,amnesia,"
    "stale,outages,epilogs,scope,replicas,restores.",
)
@click.option("--story", type=click.Path(path_type=Path), help="Write everything that happened to this file.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(min=1), help="With --seeds: processes.")
@click.option(
    "--state", type=click.Path(path_type=Path), help="With --seeds: keep results here, and leave out those there are."
)
@click.option("--report", type=click.Path(path_type=Path), help="With --seeds: write a page about them.")
def simulate(seed: int | None, seeds: str | None, faults: str, **given: Any) -> None:
    """Run the extender in a simulated cluster, on virtual time, and hold its promises against what happens.

    Exit code 1 where one is broken: its story is printed then, and the command that shows it again.
    """
    from simulator.run_commands import run_many, run_one  # noqa: PLC0415

    try:
        kept = run_one(seed, faults, **given) if seeds is None else run_many(seeds, faults, **given)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not kept:
        sys.exit(1)


BY_NAME = {"demo": demo, "simulate": simulate}
