"""`nodes`, `drain` and `resume`."""

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
from kubectl_slurm.asking import Asking, asking, node_name, remark
from kubectl_slurm.completion import node_names
from kubectl_slurm.debug import Unreached
from kubectl_slurm.drains import Done, DryRun, NotResumed
from kubectl_slurm.flags import Common, common, selector
from kubectl_slurm.output import Column, Form

Json = dict[str, Any]

MAY_PATCH = "the ClusterRole slurm-extender-operate allows it"

_dry_run = click.option(
    "--dry-run",
    is_flag=False,
    flag_value=str(DryRun.CLIENT),
    default=str(DryRun.NONE),
    type=click.Choice([str(one) for one in DryRun]),
    help="client: send nothing; server: have the API server look at it and keep nothing.",
)


@click.command("nodes")
@click.argument("names", nargs=-1, metavar="[NODE]...", shell_complete=node_names)
@selector
@common
def list_nodes(given: Common, names: tuple[str, ...], selector: str) -> None:
    """Nodes as Kubernetes and Slurm see them."""
    if names and selector:
        raise click.UsageError("name the Nodes, or some of their labels (-l); not both")
    with asking(given) as ask:
        found = [ask.node(name) for name in names] if names else of_nodes.nodes_of(ask.api, selector)
        rows = [of_nodes.row_of(node) for node in found]
        try:
            rows = of_nodes.with_slurm(rows, ask.debug.get("nodes"))
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
        ask.show(rows, columns, "node", "no Node")


@click.command()
@click.argument("names", nargs=-1, metavar="NODE...", shell_complete=node_names)
@selector
@click.option("--reason", default="", metavar="TEXT", help="What for. It stands on the Node and in Slurm's drain.")
@_dry_run
@common
def drain(given: Common, names: tuple[str, ...], selector: str, reason: str, dry_run: str) -> None:
    """Let Slurm start nothing more on NODE: it is cordoned, and drained in Slurm for that. Nothing is evicted."""
    text, dry = " ".join(reason.split()), DryRun(dry_run)
    _each_node(given, names, selector, dry, lambda api, node: drains.drain(api, node, text, dry))


@click.command()
@click.argument("names", nargs=-1, metavar="NODE...", shell_complete=node_names)
@selector
@_dry_run
@common
def resume(given: Common, names: tuple[str, ...], selector: str, dry_run: str) -> None:
    """Undo `drain`: uncordon NODE. What others cordoned or drained is not lifted by this."""
    dry = DryRun(dry_run)
    _each_node(given, names, selector, dry, lambda api, node: drains.resume(api, node, dry))


@click.command()
@click.argument("names", nargs=-1, metavar="NODE...", shell_complete=node_names)
@_dry_run
@common
def release(given: Common, names: tuple[str, ...], dry_run: str) -> None:
    """Say that nothing of removed Pods runs on NODE any more, so that its drain for them is lifted.

    The extender keeps Slurm off a node from which a Pod was removed without its kubelet's word, for the Pod's grace:
    its processes may live on, unseen. Restart the kubelet, which ends them, before you say so.
    """
    dry, now = DryRun(dry_run), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: TID251
    _each_node(given, names, "", dry, lambda api, node: drains.release(api, node, now, dry))


def _each_node(
    given: Common, names: tuple[str, ...], selector: str, dry: DryRun, act: Callable[[Api, Json], Done]
) -> None:
    if bool(names) == bool(selector):
        raise click.UsageError("name the Nodes, or some of their labels (-l); not both")
    rows, failed = [], False
    with asking(given) as ask:
        found = (
            [node["metadata"]["name"] for node in of_nodes.nodes_of(ask.api, selector)]
            if selector
            else [*map(node_name, names)]
        )
        if not found:
            raise click.ClickException(f"no Node has the labels {selector}")
        for name in found:
            try:
                done = act(ask.api, ask.node(name))
            except (NotResumed, Away, click.ClickException) as error:
                failed = True
                said = error.message if isinstance(error, click.ClickException) else error
                click.echo(printable(f"Error: {said}"), err=True)
            except NotAllowed as error:
                failed = True
                click.echo(printable(f"Error: {error} ({MAY_PATCH})"), err=True)
            else:
                rows.append({"name": done.node, **{key: one for key, one in asdict(done).items() if key != "node"}})
                if given.form in {Form.TABLE, Form.WIDE}:
                    click.echo(printable(_sentence(done, dry)))
        _print(ask, rows)
    if failed:
        sys.exit(1)


def _sentence(done: Done, dry: DryRun) -> str:
    tried = "" if dry is DryRun.NONE else " (dry run)" if dry is DryRun.CLIENT else " (server dry run)"
    return f"node/{done.node} {done.did}{tried}: {done.more}"


def _print(ask: Asking, rows: list[Json]) -> None:
    if ask.given.form not in {Form.TABLE, Form.WIDE}:
        ask.show(rows, [], "node")
