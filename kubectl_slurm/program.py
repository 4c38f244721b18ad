"""The program. Exit codes: 0 done, 1 not, 2 asked wrongly, 130 interrupted."""

from __future__ import annotations

import sys

import click

from extender import __version__
from kubectl_slurm import doctor_command, node_commands, pod_commands
from kubectl_slurm import status as of_status
from kubectl_slurm.asking import asking
from kubectl_slurm.debug import Unreached
from kubectl_slurm.flags import Common, common
from kubectl_slurm.group import Plugin
from kubectl_slurm.orphans import rows_of
from kubectl_slurm.output import Column


@click.group(cls=Plugin, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="kubectl-slurm")
def main() -> None:
    """Pods that Slurm places: why they wait, where they are, and the nodes below them."""


@main.command()
@common
def status(given: Common) -> None:
    """How the extender is, and how many Pods wait for what."""
    with asking(given) as ask:
        rows = of_status.rows(ask.api, ask.debug, given)
        ask.show(rows, [Column("WHAT", "name"), Column("IS", "is"), Column("MORE", "more")], "status")
        if any(row["bad"] for row in rows):
            sys.exit(1)


@main.command()
@common
def orphans(given: Common) -> None:
    """Slurm jobs without a Pod, Pods whose job is missing, and what to do about each. Only the extender knows them."""
    with asking(given) as ask:
        try:
            rows = rows_of(ask.debug.get("orphans"))
        except Unreached as error:
            raise click.ClickException(f"only the extender knows of orphans, and {error}") from error
        columns = [
            Column("NAME", "name"),
            Column("KIND", "kind"),
            Column("JOB", "job"),
            Column("STATE", "state"),
            Column("FOR", "for"),
            Column("POD-UID", "podUid", wide=True),
            Column("TO-DO", "toDo"),
        ]
        ask.show(rows, columns, "orphan", "no orphan")


for command in (
    pod_commands.why,
    pod_commands.jobs,
    pod_commands.story,
    node_commands.list_nodes,
    node_commands.drain,
    node_commands.resume,
    node_commands.release,
    doctor_command.doctor,
):
    main.add_command(command)
