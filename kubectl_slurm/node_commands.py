"""`nodes`, `drain`, `resume` and `release`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click

from extender.domain.printable import printable
from kubectl_slurm import drains
from kubectl_slurm import nodes as of_nodes
from kubectl_slurm.api import Api, Away, NotAllowed
from kubectl_slurm.command_sources import CommandSources, command_sources, node_name, remark
from kubectl_slurm.completion import node_names
from kubectl_slurm.debug import Unreached
from kubectl_slurm.drains import Done, NotResumed
from kubectl_slurm.flags import Common, DryRun, common, dry_run_option, selector
from kubectl_slurm.group import NodeCommand
from kubectl_slurm.output import Column, Form

Json = dict[str, Any]

MAY_PATCH = "the ClusterRole slurm-extender-operate allows it"


@click.command("nodes", cls=NodeCommand, short_help="List Nodes as Kubernetes and Slurm see them")
@click.argument("names", nargs=-1, metavar="[NODE]...", shell_complete=node_names)
@selector
@common
def list_nodes(given: Common, names: tuple[str, ...], selector: str) -> None:
    """List Nodes as Kubernetes and Slurm see them.

    \b
    Examples:
      kubectl slurm nodes
      kubectl slurm nodes n1 n2 -o wide
    """
    if names and selector:
        raise click.UsageError("specify Node names or a label selector (-l), not both")
    with command_sources(given) as sources:
        found = [sources.node(name) for name in names] if names else of_nodes.nodes_of(sources.api, selector)
        rows = [of_nodes.row_of(node) for node in found]
        try:
            rows = of_nodes.with_slurm(rows, sources.debug.get("nodes"))
        except Unreached as error:
            remark(error, "the states in Slurm are left out")
        columns = [
            Column("NAME", "name"),
            Column("READY", "ready"),
            Column("CORDONED", "cordoned"),
            Column("SLURM-NODE", "slurmNode"),
            Column("SLURM", "slurm"),
            Column("STATE", "slurmState"),
            Column("REASON", "reason"),
            Column("AGE", "created", since=True),
            Column("DRAINED-FOR", "drainReason", wide=True),
            Column("HELD-FOR", "held", wide=True),
            Column("PARTITIONS", "partitions", wide=True),
            Column("NATIVE-JOBS", "nativeJobs", wide=True),
        ]
        sources.show(rows, columns, "node", "no Node")


@click.command(cls=NodeCommand, short_help="Cordon Nodes and drain them in Slurm")
@click.argument("names", nargs=-1, metavar="NODE...", shell_complete=node_names)
@selector
@click.option("--reason", default="", metavar="TEXT", help="The reason, written on the Node and in Slurm's drain.")
@dry_run_option
@common
def drain(given: Common, names: tuple[str, ...], selector: str, reason: str, dry_run: str) -> None:
    """Cordon NODE. The extender then drains it in Slurm, so that nothing new starts there. Nothing is evicted.

    \b
    Example:
      kubectl slurm drain n1 --reason "bad disk"
    """
    text, dry = " ".join(reason.split()), DryRun(dry_run)
    _each_node(given, names, selector, dry, lambda api, node: drains.drain(api, node, text, dry))


@click.command(cls=NodeCommand, short_help="Undo drain: uncordon Nodes")
@click.argument("names", nargs=-1, metavar="NODE...", shell_complete=node_names)
@selector
@dry_run_option
@common
def resume(given: Common, names: tuple[str, ...], selector: str, dry_run: str) -> None:
    """Undo `drain`: uncordon NODE. Cordons and drains of others stay.

    \b
    Example:
      kubectl slurm resume n1
    """
    dry = DryRun(dry_run)
    _each_node(given, names, selector, dry, lambda api, node: drains.resume(api, node, dry))


@click.command(cls=NodeCommand, short_help="Confirm that removed Pods no longer run")
@click.argument("names", nargs=-1, required=True, metavar="NODE...", shell_complete=node_names)
@dry_run_option
@common
def release(given: Common, names: tuple[str, ...], dry_run: str) -> None:
    """Confirm that no process of removed Pods runs on NODE any more. The extender then resumes it in Slurm.

    The extender keeps a node drained for the grace period of a Pod that was removed without its kubelet: processes of
    the Pod may still run. Restart the kubelet, which ends them, before you confirm.

    \b
    Example:
      kubectl slurm release n1
    """
    dry, now = DryRun(dry_run), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: TID251
    _each_node(given, names, "", dry, lambda api, node: drains.release(api, node, now, dry))


def _each_node(
    given: Common, names: tuple[str, ...], selector: str, dry: DryRun, act: Callable[[Api, Json], Done]
) -> None:
    if bool(names) == bool(selector):
        raise click.UsageError("specify Node names or a label selector (-l), not both")
    rows, failed = [], False
    with command_sources(given) as sources:
        found = (
            [node["metadata"]["name"] for node in of_nodes.nodes_of(sources.api, selector)]
            if selector
            else [*map(node_name, names)]
        )
        if not found:
            raise click.ClickException(f"no Node has the labels {selector}")
        for name in found:
            try:
                done = act(sources.api, sources.node(name))
            except (NotResumed, Away, click.ClickException) as error:
                failed = True
                error_text = error.message if isinstance(error, click.ClickException) else error
                click.echo(printable(f"Error: {error_text}"), err=True)
            except NotAllowed as error:
                failed = True
                click.echo(printable(f"Error: {error} ({MAY_PATCH})"), err=True)
            else:
                rows.append({"name": done.node, **{key: one for key, one in asdict(done).items() if key != "node"}})
                if given.form in {Form.TABLE, Form.WIDE}:
                    click.echo(printable(_sentence(done, dry)))
        _print(sources, rows)
    if failed:
        sys.exit(1)


def _sentence(done: Done, dry: DryRun) -> str:
    tried = "" if dry is DryRun.NONE else " (dry run)" if dry is DryRun.CLIENT else " (server dry run)"
    return f"node/{done.node} {done.result}{tried}: {done.message}"


def _print(sources: CommandSources, rows: list[Json]) -> None:
    if sources.given.form not in {Form.TABLE, Form.WIDE}:
        sources.show(rows, [], "node")
