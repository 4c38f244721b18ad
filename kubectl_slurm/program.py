"""The program. Exit codes: 0 done, 1 not, 2 asked wrongly, 130 interrupted."""

from __future__ import annotations

import sys

import click

from extender import __version__
from kubectl_slurm import cancel_command, doctor_command, gang_commands, node_commands, pod_commands, queue_commands
from kubectl_slurm import status as of_status
from kubectl_slurm import ui_command as of_ui
from kubectl_slurm.command_sources import command_sources
from kubectl_slurm.debug import Unreached
from kubectl_slurm.flags import Common, common
from kubectl_slurm.group import OptionsCommand, Plugin, flags_help
from kubectl_slurm.orphans import rows_of
from kubectl_slurm.output import Column
from kubectl_slurm.watching import repeated, watchable


@click.group(cls=Plugin, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="kubectl-slurm")
def main() -> None:
    """Show Pods that Slurm places, why they wait, and their Nodes.

    \b
    Examples:
      kubectl slurm status
      kubectl slurm why POD
      kubectl slurm jobs -A
    """


@main.command(short_help="Check the extender and count waiting Pods")
@watchable
@common
def status(given: Common, watch: bool) -> None:
    """Check the extender, and count the Pods that wait, by reason. Exit code 1 where a check fails.

    \b
    Example:
      kubectl slurm status
    """
    failed = False

    def show() -> None:
        nonlocal failed
        rows = of_status.rows(sources.api, sources.renewed().debug, given)
        sources.show(
            rows, [Column("CHECK", "name"), Column("STATUS", "status"), Column("MESSAGE", "message")], "status"
        )
        failed = any(row["failed"] for row in rows)

    with command_sources(given) as sources:
        repeated(watch, show)
    if failed:
        sys.exit(1)


@main.command(short_help="List jobs without Pods and Pods without jobs")
@common
def orphans(given: Common) -> None:
    """List Slurm jobs without a Pod and Pods whose job is missing, with the action to take.

    \b
    Example:
      kubectl slurm orphans
    """
    with command_sources(given) as sources:
        try:
            rows = rows_of(sources.debug.get("orphans"))
        except Unreached as error:
            raise click.ClickException(f"only the extender lists orphans: {error}") from error
        columns = [
            Column("NAME", "name"),
            Column("KIND", "kind"),
            Column("JOB", "job"),
            Column("STATE", "state"),
            Column("AGE", "age"),
            Column("WORKLOAD", "workload", wide=True),
            Column("ACTION", "action"),
        ]
        sources.show(rows, columns, "orphan", "no orphan")


@click.command(cls=OptionsCommand, short_help="List the flags that every command takes")
@click.pass_context
def options(context: click.Context) -> None:
    """List the flags of the connection, which every command takes."""
    click.echo(flags_help(context))


for command in (
    pod_commands.why,
    pod_commands.jobs,
    pod_commands.history,
    queue_commands.queue,
    queue_commands.shares,
    cancel_command.cancel,
    gang_commands.gangs,
    node_commands.list_nodes,
    node_commands.drain,
    node_commands.resume,
    node_commands.release,
    doctor_command.doctor,
    of_ui.ui,
    options,
):
    main.add_command(command)
