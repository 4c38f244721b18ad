"""`queue` and `shares`: the queue by partition, and the fair shares and limits of accounts."""

from __future__ import annotations

import urllib.parse
from collections import Counter
from collections.abc import Iterable
from typing import Any

import click

from extender.domain.wellknown import BRIDGE_PREFIX, OWN_PREFIX, SUNK_PREFIX
from kubectl_slurm import pods as of_pods
from kubectl_slurm.command_sources import CommandSources, command_sources, remark
from kubectl_slurm.debug import Unreached, objects
from kubectl_slurm.flags import Common, common
from kubectl_slurm.group import NodeCommand, PluginCommand
from kubectl_slurm.output import Column, Form
from kubectl_slurm.watching import repeated, watchable

Json = dict[str, Any]

PARTITION_KEYS = tuple(f"{prefix}partition" for prefix in (OWN_PREFIX, SUNK_PREFIX, BRIDGE_PREFIX))
UNNAMED = "(default)"
"""The partition of Pods that name none, where the extender cannot be asked."""

UNKNOWN = "(none)"
"""The partition of Pods that get no job, and name none."""

SHOWN = "Shown"
"""Ends the keys of texts for the cells of a table."""

QUEUE = (
    Column("PARTITION", "name"),
    Column("NODES", "nodesShown"),
    Column("CPUS", "cpusShown"),
    Column("GPUS", "gpusShown"),
    Column("PLACED", "placed"),
    Column("WAITING", "waiting"),
    Column("GPUS-WANTED", "gpusWanted"),
    Column("REASONS", "reasonsShown"),
)
SHARES = (
    Column("ACCOUNT", "account"),
    Column("USER", "user"),
    Column("PARTITION", "partition", wide=True),
    Column("PARENT", "parent", wide=True),
    Column("SHARES", "sharesShown"),
    Column("USAGE", "usageShown"),
    Column("FAIRSHARE", "factorShown"),
    Column("MAX-JOBS", "maxJobs"),
    Column("MAX-SUBMIT", "maxSubmitJobs"),
    Column("QOS", "qos", wide=True),
    Column("DEFAULT-QOS", "defaultQos", wide=True),
)


@click.command(cls=PluginCommand, short_help="Show partitions, free GPUs and waiting Pods")
@watchable
@common
def queue(given: Common, watch: bool) -> None:
    """Show each partition: nodes in service, CPUs and GPUs in use, and the Pods that wait for it, by reason.

    A Pod that may run in several partitions counts in each. If the extender cannot be asked, the waiting Pods of the
    namespace (-A: of all) are counted by the partition that they name.

    \b
    Examples:
      kubectl slurm queue
      kubectl slurm queue -w
    """
    with command_sources(given) as sources:
        repeated(watch, lambda: _show(sources, _queue(sources.renewed()), QUEUE, "partition", "no partition"))


@click.command(cls=NodeCommand, short_help="Show fair shares and limits of accounts")
@click.argument("accounts", nargs=-1, metavar="[ACCOUNT]...")
@watchable
@common
def shares(given: Common, accounts: tuple[str, ...], watch: bool) -> None:
    """Show the fair share of each ACCOUNT and of its users, their usage, and the limits of their jobs. Default: all.

    FAIRSHARE is the part of a job's priority, from 0 to 1; USAGE the part of the whole usage. Slurm needs slurmdbd.

    \b
    Examples:
      kubectl slurm shares
      kubectl slurm shares physics -o wide
    """
    with command_sources(given) as sources:
        repeated(watch, lambda: _show_shares(sources.renewed(), accounts))


def _queue(sources: CommandSources) -> list[Json]:
    try:
        return [_partition(one) for one in objects(sources.debug.get("queue").get("partitions"))]
    except Unreached as error:
        where = f"namespace {sources.namespace}" if sources.namespace else "all namespaces"
        remark(error, f"the Pods of {where} are counted, without nodes and GPUs")
    lines: dict[str, tuple[Counter[str], Counter[str]]] = {}
    for pod in of_pods.pods_of(sources.api, sources.given.scheduler, sources.namespace):
        row = of_pods.row_of(pod)
        states, reasons = lines.setdefault(_named_partition(pod), (Counter(), Counter()))
        states[row["state"]] += 1
        if row["state"] == "Waiting":
            reasons[row["reason"] or "no reason yet"] += 1
    return [
        {
            "name": name,
            "placed": states["Placed"],
            "waiting": states["Waiting"],
            "reasons": dict(reasons.most_common()),
            "reasonsShown": _counted(reasons.most_common()),
        }
        for name, (states, reasons) in sorted(lines.items())
    ]


def _partition(partition: Json) -> Json:
    reasons = partition.get("reasons")
    counted = list(reasons.items()) if isinstance(reasons, dict) else []
    known = bool(partition.get("known"))
    return {
        **{key: partition.get(key) for key in ("default", "placed", "waiting", "gpusWanted", "reasons")},
        **{key: partition.get(key) for key in ("nodes", "nodesInService", "cpus", "cpusUsed", "gpus", "gpusUsed")},
        "name": str(partition.get("name") or UNKNOWN),
        "nodesShown": f"{partition.get('nodesInService')}/{partition.get('nodes')}" if known else "",
        "cpusShown": f"{partition.get('cpusUsed')}/{partition.get('cpus')}" if known else "",
        "gpusShown": f"{partition.get('gpusUsed')}/{partition.get('gpus')}" if known and partition.get("gpus") else "",
        "reasonsShown": _counted(counted),
    }


def _named_partition(pod: Json) -> str:
    annotations = pod["metadata"].get("annotations") or {}
    return next((str(annotations[key]) for key in PARTITION_KEYS if annotations.get(key)), UNNAMED)


def _counted(counts: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts)


def _show_shares(sources: CommandSources, accounts: tuple[str, ...]) -> None:
    query = urllib.parse.urlencode([("account", one) for one in accounts])
    try:
        answer = sources.debug.get(f"shares?{query}" if query else "shares")
    except Unreached as error:
        raise click.ClickException(f"fair shares are read by the extender, and {error}") from error
    rows = [_share(one) for one in objects(answer.get("shares"))]
    if why := answer.get("limitsUnknown"):
        click.echo(f"limits are left out: {why}", err=True)
    if left_out := answer.get("leftOut"):
        click.echo(f"{left_out} more lines are left out; name accounts", err=True)
    nothing = f"Slurm has no account {', '.join(accounts)}" if accounts else "Slurm has no account"
    _show(sources, rows, SHARES, "account", nothing)


def _show(sources: CommandSources, rows: list[Json], columns: tuple[Column, ...], kind: str, nothing: str) -> None:
    """Print rows; texts for the cells of a table are left out of what programs read."""
    if sources.given.form not in {Form.TABLE, Form.WIDE}:
        rows = [{key: value for key, value in row.items() if not key.endswith(SHOWN)} for row in rows]
    sources.show(rows, list(columns), kind, nothing)


def _share(share: Json) -> Json:
    user, account = str(share.get("user") or ""), str(share.get("account") or "")
    return {
        "name": f"{account}/{user}" if user else account,
        "account": account,
        "user": user,
        "partition": str(share.get("partition") or ""),
        "parent": str(share.get("parent") or ""),
        "shares": share.get("shares"),
        "normalizedShares": share.get("normalized"),
        "usage": share.get("usage"),
        "fairshare": share.get("factor"),
        "maxJobs": share.get("max_jobs"),
        "maxSubmitJobs": share.get("max_submit_jobs"),
        "qos": share.get("qos") or [],
        "defaultQos": share.get("default_qos") or "",
        "sharesShown": _number(share.get("shares"), "g"),
        "usageShown": _number(share.get("usage"), ".4f"),
        "factorShown": _number(share.get("factor"), ".4f"),
    }


def _number(value: object, form: str) -> str:
    return format(value, form) if isinstance(value, int | float) and not isinstance(value, bool) else ""
