"""`why`, `jobs` and `history`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from extender.domain.printable import printable
from kubectl_slurm import pods as of_pods
from kubectl_slurm import timeline
from kubectl_slurm.api import NotThere
from kubectl_slurm.command_sources import CommandSources, command_sources, remark
from kubectl_slurm.completion import pod_names
from kubectl_slurm.debug import Unreached
from kubectl_slurm.flags import Common, common, selector
from kubectl_slurm.group import PluginCommand
from kubectl_slurm.output import Column, Form
from kubectl_slurm.watching import repeated, watchable

Json = dict[str, Any]


@click.command(cls=PluginCommand, short_help="Explain why Pods wait")
@click.argument("names", nargs=-1, metavar="[POD]...", shell_complete=pod_names)
@selector
@watchable
@common
def why(given: Common, names: tuple[str, ...], selector: str, watch: bool) -> None:
    """Explain in one sentence why POD waits: each named Pod, or those with the labels of -l. Default: all that wait.

    For one Pod the extender is asked, where it can be reached. For several, their conditions are shown.

    \b
    Examples:
      kubectl slurm why
      kubectl slurm why web
      kubectl slurm why -l app=train
    """
    if names and selector:
        raise click.UsageError("specify Pod names or a label selector (-l), not both")
    with command_sources(given) as sources:
        repeated(watch, lambda: _explain(sources.renewed(), names, selector))


def _explain(sources: CommandSources, names: tuple[str, ...], selector: str) -> None:
    given = sources.given
    if names:
        found = [sources.pod(name) for name in names]
    else:
        found = of_pods.pods_of(sources.api, given.scheduler, sources.namespace, selector)
        found = found if selector else [pod for pod in found if of_pods.waits(pod)]
    rows = []
    for pod in found:
        row = of_pods.row_of(pod)
        why, source = _why(sources, pod, row, one=len(found) == 1)
        rows.append({**row, "why": why, "source": source})
    if given.form in {Form.JSON, Form.YAML, Form.NAME}:
        sources.show(rows, [], "pod", one=len(names) == 1)
        return
    if not rows:
        where = f"in namespace {sources.namespace}" if sources.namespace else "in any namespace"
        scheduler = f"of the scheduler {given.scheduler}"
        none = f"no Pod {scheduler} has these labels" if selector else f"no Pod {scheduler} waits {where}"
        click.echo(none, err=True)
    for row in rows:
        click.echo(printable(f"{row['namespace']}/{row['name']}: {row['why']}"))
        if given.form is Form.WIDE:
            job = row["job"] or "<none>"
            reason = row["reason"] or "<none>"
            click.echo(printable(f"reason: {reason}, Slurm job: {job}, source: {row['source']}"))


@click.command(cls=PluginCommand, short_help="List Pods and their Slurm jobs")
@selector
@watchable
@common
def jobs(given: Common, selector: str, watch: bool) -> None:
    """List Pods and their Slurm jobs.

    \b
    Examples:
      kubectl slurm jobs
      kubectl slurm jobs -A -o wide
      kubectl slurm jobs -w
    """
    with command_sources(given) as sources:
        repeated(watch, lambda: _list_jobs(sources, selector))


def _list_jobs(sources: CommandSources, selector: str) -> None:
    given = sources.given
    rows = [of_pods.row_of(pod) for pod in of_pods.pods_of(sources.api, given.scheduler, sources.namespace, selector)]
    rows.sort(key=lambda row: (row["namespace"], row["name"]))
    columns = [
        *([Column("NAMESPACE", "namespace")] if given.everywhere else []),
        Column("NAME", "name"),
        Column("JOB", "job"),
        Column("STATE", "state"),
        Column("REASON", "reason"),
        Column("NODE", "node"),
        Column("AGE", "created", since=True),
        Column("SLURM-NODE", "slurmNode", wide=True),
        Column("DEVICES", "devices", wide=True),
        Column("WHY", "why", wide=True),
    ]
    where = f"in namespace {sources.namespace}" if sources.namespace else "in any namespace"
    sources.show(rows, columns, "pod", f"no Pod of the scheduler {given.scheduler} {where}")


@click.command(cls=PluginCommand, short_help="Show what happened to a Pod")
@click.argument("pod", shell_complete=pod_names)
@common
def history(given: Common, pod: str) -> None:
    """Show what happened to POD, in the order of time: its status, its Events, and the steps of the extender.

    For a Pod that is gone, its Events remain for an hour, and the extender remembers it for a while.

    \b
    Example:
      kubectl slurm history web
    """
    with command_sources(given) as sources:
        found, events = _with_events(sources, pod)
        uid = found["metadata"]["uid"]
        rows = [*timeline.of_pod(found), *timeline.of_events(events)]
        try:
            rows += timeline.of_extender(sources.debug.find(f"placeholders/{uid}") or {})
        except Unreached as error:
            remark(error, "the extender's own steps are left out")
        named = [{"name": found["metadata"]["name"], **row} for row in timeline.in_order(rows)]
        columns = [Column("TIME", "time"), Column("SOURCE", "source"), Column("MESSAGE", "message")]
        if given.form is Form.NAME:
            del named[1:]
        sources.show(named, columns, "pod", f"there is no record of {pod}")


def _with_events(sources: CommandSources, name: str) -> tuple[Json, list[Json]]:
    """Return the Pod and its Events; of one that is gone no more than name and UID."""
    where, bare = sources.place(name)
    try:
        found = sources.api.get(f"/api/v1/namespaces/{where}/pods/{bare}")
    except NotThere:
        events = of_pods.events_of_name(sources.api, where, bare)
        uid = next(
            (found_uid for one in reversed(events) if (found_uid := (one.get("regarding") or {}).get("uid"))), ""
        )
        if not uid:
            raise click.ClickException(f"there is no Pod {bare} in namespace {where}, and no Event about one") from None
        click.echo(f"Pod {where}/{bare} is gone; this is the last one of its name", err=True)
        return {"metadata": {"name": bare, "namespace": where, "uid": uid}}, [
            one for one in events if (one.get("regarding") or {}).get("uid") == uid
        ]
    sources.judge(found)
    return found, of_pods.events_of(sources.api, found)


def _why(sources: CommandSources, pod: Json, row: Mapping[str, Any], *, one: bool) -> tuple[str, str]:
    """Return the sentence and its source. The condition is behind by seconds, the leader is not."""
    if row["state"] in {"Succeeded", "Failed", "Ending"}:
        return f"It does not wait: it is {row['state'].lower()}.", "the Pod"
    if one:
        try:
            # A Pod beyond the size of its gang has no placeholder.
            record = sources.debug.find(f"placeholders/{row['uid']}") or sources.debug.find(f"gangs/{row['uid']}") or {}
        except Unreached as error:
            remark(error, "the status on the Pod is shown")
            record = {}
        if record.get("why"):
            return str(record["why"]), "the extender"
    if row["state"] == "Placed":
        job = f"Slurm job {row['job']} has" if row["job"] else "No Slurm job is known that has"
        return f"It does not wait: {job} {row['node']} for the Pod.", "the Pod"
    if row["why"]:
        return str(row["why"]), "its condition"
    return of_pods.without_condition(
        pod, of_pods.events_of(sources.api, pod) if one else []
    ), "its Events" if one else "the Pod"
