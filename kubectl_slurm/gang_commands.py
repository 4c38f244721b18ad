"""`gangs`: the gangs of a namespace, and the members of one."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

import click

from extender.domain.printable import printable
from extender.domain.wellknown import GANG_MEMBERS, GANG_RANK
from kubectl_slurm import pods as of_pods
from kubectl_slurm.command_sources import CommandSources, command_sources, remark
from kubectl_slurm.completion import pod_names
from kubectl_slurm.debug import Unreached, objects
from kubectl_slurm.flags import Common, common
from kubectl_slurm.group import PluginCommand
from kubectl_slurm.output import Column, Form

Json = dict[str, Any]

GANGS = (
    Column("NAME", "name"),
    Column("STATE", "state"),
    Column("JOB", "job"),
    Column("SIZE", "size"),
    Column("PODS", "pods"),
    Column("BOUND", "bound"),
    Column("SOURCE", "source", wide=True),
    Column("MISSING", "missing"),
)
MEMBERS = (
    Column("RANK", "rank"),
    Column("POD", "pod"),
    Column("STATE", "state"),
    Column("PHASE", "phase"),
    Column("SLURM-NODE", "slurmNode"),
    Column("NODE", "node"),
    Column("UID", "uid", wide=True),
)


@click.command(cls=PluginCommand, short_help="List gangs, or the members of one")
@click.argument("pod", required=False, shell_complete=pod_names)
@common
def gangs(given: Common, pod: str | None) -> None:
    """List gangs: their state, Slurm job, and what is missing. With POD: the members of its gang, by rank.

    A member that has `voted` is accepted by kube-scheduler; all members are bound once each has voted. If the extender
    cannot be asked, the members of a bound gang are read from their Pods.

    \b
    Examples:
      kubectl slurm gangs
      kubectl slurm gangs -A
      kubectl slurm gangs train-0-x7k2p
    """
    with command_sources(given) as sources:
        if pod is None:
            _list(sources)
        else:
            _members(sources, sources.pod(pod))


def _list(sources: CommandSources) -> None:
    query = urllib.parse.urlencode({"namespace": sources.namespace}) if sources.namespace else ""
    try:
        found = sources.debug.items(f"gangs?{query}" if query else "gangs")
    except Unreached as error:
        raise click.ClickException(f"only the extender knows which Pods are gangs, and {error}") from error
    rows = [_gang(one) for one in found]
    rows.sort(key=lambda row: (row["namespace"], row["name"]))
    where = f"in namespace {sources.namespace}" if sources.namespace else "in any namespace"
    namespaces = [Column("NAMESPACE", "namespace")] if sources.given.everywhere else []
    sources.show(rows, [*namespaces, *GANGS], "gang", f"no gang {where}")


def _members(sources: CommandSources, pod: Json) -> None:
    name = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
    try:
        record = sources.debug.find(f"gangs/{pod['metadata']['uid']}")
        if record is None:
            raise click.ClickException(f"Pod {name} is a member of no gang; `kubectl slurm why` shows why it waits")
        gang: Mapping[str, Any] = {**_gang(record), "why": str(record.get("why", ""))}
        members = [_member(one) for one in objects(record.get("members"))]
        left_out = record.get("membersLeftOut")
    except Unreached as error:
        remark(error, "the bound members are read from their Pods")
        gang, members, left_out = _from_pods(sources, pod), _bound_members(sources, pod), 0
        if not members:
            text = f"Pod {name} has no record of a gang; see its condition"
            raise click.ClickException(text) from None
    if sources.given.form in {Form.JSON, Form.YAML}:
        sources.show([{**gang, "members": members}], [], "gang", one=True)
        return
    if sources.given.form is Form.NAME:
        sources.show([{"name": one["pod"].rpartition("/")[2]} for one in members], [], "pod")
        return
    job = f"Slurm job {gang['job']}" if gang["job"] else "no Slurm job"
    click.echo(printable(f"{gang['namespace']}/{gang['name']}: {gang['state']}, {job}, {_counted(gang)}"))
    for text in dict.fromkeys(text for text in (gang["missing"], gang["why"]) if text):
        click.echo(printable(text))
    sources.show(members, list(MEMBERS), "pod")
    if isinstance(left_out, int) and left_out > 0:
        click.echo(f"and {left_out} more", err=True)


def _counted(gang: Mapping[str, Any]) -> str:
    return f"{gang['bound']} of {gang['size']} members bound" if gang["size"] else "size not known"


def _gang(one: Json) -> Json:
    return {
        "namespace": str(one.get("namespace", "")),
        "name": str(one.get("name", "")),
        "state": str(one.get("state", "")),
        "job": one.get("jobId"),
        "size": one.get("size"),
        "pods": one.get("pods"),
        "bound": one.get("bound"),
        "source": str(one.get("source", "")),
        "missing": str(one.get("missing", "")),
    }


def _member(one: Json) -> Json:
    keys = ("rank", "pod", "state", "phase", "slurmNode", "node", "uid")
    return {key: one.get(key) if key == "rank" else str(one.get(key, "")) for key in keys}


def _from_pods(sources: CommandSources, pod: Json) -> Json:
    row = of_pods.row_of(pod)
    size = (pod["metadata"].get("annotations") or {}).get(GANG_MEMBERS, "")
    return {
        "namespace": row["namespace"],
        "name": f"gang of {row['name']}",
        "state": "bound",
        "job": row["job"],
        "size": _number(size),
        "pods": None,
        "bound": len(_bound_members(sources, pod)),
        "source": "",
        "missing": "",
        "why": "",
    }


def _number(text: str) -> int | None:
    """Read a whole number of at most nine digits, which any author of a Pod may have written; `None`: it is none."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else None


def _bound_members(sources: CommandSources, pod: Json) -> list[Json]:
    """Return the Pods that name the same Slurm job as this one, by the ranks that stand on them."""
    job, namespace = of_pods.row_of(pod)["job"], pod["metadata"].get("namespace", "")
    if job is None or GANG_RANK not in (pod["metadata"].get("annotations") or {}):
        return []
    members = []
    for one in of_pods.pods_of(sources.api, sources.given.scheduler, namespace):
        row, rank = of_pods.row_of(one), _number((one["metadata"].get("annotations") or {}).get(GANG_RANK, ""))
        if row["job"] == job and rank is not None:
            phase = str((one.get("status") or {}).get("phase", ""))
            members.append(
                {
                    "rank": rank,
                    "pod": f"{row['namespace']}/{row['name']}",
                    "state": "bound" if row["state"] == "Placed" else str(row["state"]).lower(),
                    "phase": phase,
                    "slurmNode": row["slurmNode"],
                    "node": row["node"],
                    "uid": row["uid"],
                }
            )
    return sorted(members, key=lambda one: (one["rank"], one["pod"]))
