"""The commands. Exit codes: 0 done, 1 not, 2 asked wrongly."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from extender import __version__
from extender.kubectl import nodes as of_nodes
from extender.kubectl import pods as of_pods
from extender.kubectl import status as of_status
from extender.kubectl.api import Api, Away, NotAllowed, NotThere
from extender.kubectl.completion import node_names, pod_names
from extender.kubectl.debug import Debug, Unreached
from extender.kubectl.flags import Common, common
from extender.kubectl.kubeconfig import KubeconfigError, target
from extender.kubectl.output import Column, Form, show

Json = dict[str, Any]

USAGE = 2


@dataclass(frozen=True, slots=True)
class Asking:
    """What a command asks."""

    api: Api
    debug: Debug
    given: Common

    @property
    def namespace(self) -> str:
        """Where to list Pods; "" is everywhere."""
        return "" if self.given.everywhere else self.api.namespace


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="kubectl-slurm")
def main() -> None:
    """Pods that Slurm places: why they wait, where they are, and the nodes below them."""


@main.command()
@common
def status(given: Common) -> None:
    """How the extender is, and how many Pods wait for what."""
    with asking(given) as ask:
        rows = of_status.rows(ask.api, ask.debug, given)
        show(rows, [Column("WHAT", "name"), Column("IS", "is"), Column("MORE", "more")], given.form, "status")
        if any(row["bad"] for row in rows):
            sys.exit(1)


@main.command()
@click.argument("pod", shell_complete=pod_names)
@common
def why(given: Common, pod: str) -> None:
    """Say in one sentence why POD waits."""
    with asking(given) as ask:
        found = _pod(ask, pod)
        row = of_pods.row_of(found)
        said, source = _why(ask, found, row)
        row = {**row, "why": said, "source": source}
        if given.form in {Form.JSON, Form.YAML, Form.NAME}:
            show([row], [], given.form, "pod", one=True)
        else:
            click.echo(f"{row['namespace']}/{row['name']}: {said}")
            if given.form is Form.WIDE:
                click.echo(f"cause: {row['cause'] or '<none>'}, Slurm job: {row['job'] or '<none>'}, told by: {source}")


@main.command()
@common
def jobs(given: Common) -> None:
    """Pods and their Slurm jobs."""
    with asking(given) as ask:
        rows = [of_pods.row_of(pod) for pod in of_pods.pods_of(ask.api, given.scheduler, ask.namespace)]
        rows.sort(key=lambda row: (row["namespace"], row["name"]))
        columns = [
            *([Column("NAMESPACE", "namespace")] if given.everywhere else []),
            Column("NAME", "name"),
            Column("JOB", "job"),
            Column("STATE", "state"),
            Column("CAUSE", "cause"),
            Column("NODE", "node"),
            Column("SLURM-NODE", "slurmNode", wide=True),
            Column("DEVICES", "devices", wide=True),
            Column("WHY", "why", wide=True),
        ]
        _shown(rows, columns, given.form, "pod", f"no Pod of the scheduler {given.scheduler}")


@main.command("nodes")
@click.argument("names", nargs=-1, metavar="[NODE]...", shell_complete=node_names)
@common
def list_nodes(given: Common, names: tuple[str, ...]) -> None:
    """Nodes as Kubernetes and Slurm see them."""
    with asking(given) as ask:
        found = [_node(ask, name) for name in names] if names else of_nodes.nodes_of(ask.api)
        rows = [of_nodes.row_of(node) for node in found]
        try:
            debug = ask.debug.get("nodes") or {}
        except Unreached as error:
            _remark(error, "the states in Slurm are left out")
        else:
            rows = [of_nodes.with_slurm(row, debug) for row in rows]
        columns = [
            Column("NAME", "name"),
            Column("READY", "ready"),
            Column("CORDONED", "cordoned"),
            Column("SLURM-NODE", "slurmNode"),
            Column("SLURM", "slurm"),
            Column("STATE", "slurmState"),
            Column("REASON", "reason"),
            Column("HELD-FOR", "held", wide=True),
            Column("PARTITIONS", "partitions", wide=True),
            Column("NATIVE-JOBS", "nativeJobs", wide=True),
        ]
        _shown(rows, columns, given.form, "node", "no Node")


@main.command()
@click.argument("pod", shell_complete=pod_names)
@common
def story(given: Common, pod: str) -> None:
    """What happened to POD, step by step; without /debug, its Events."""
    with asking(given) as ask:
        found = _pod(ask, pod)
        try:
            said = ask.debug.get(f"placeholders/{found['metadata']['uid']}") or {}
            rows = [
                {"name": pod, "at": of_status.instant(one["at"]), "what": one["line"]}
                for one in said.get("story") or ()
            ]
        except Unreached as error:
            _remark(error, "these are its Events")
            rows = [
                {"name": pod, "at": of_pods.said_at(one), "what": f"{one.get('reason', '')}: {one.get('note', '')}"}
                for one in of_pods.events_of(ask.api, found)
            ]
        _shown(rows, [Column("AT", "at"), Column("WHAT", "what")], given.form, "pod", f"nothing is known of {pod}")


@main.command()
@common
def orphans(given: Common) -> None:
    """Slurm jobs without a Pod, and Pods whose job is missing. Only the extender knows them."""
    with asking(given) as ask:
        try:
            said = ask.debug.get("orphans") or {}
        except Unreached as error:
            raise click.ClickException(f"only /debug knows of orphans, and {error}") from error
        rows = [{"name": f"job-{one.get('jobId', one.get('job', ''))}", "what": "job", **one} for one in said["jobs"]]
        rows += [{"name": ", ".join(one["pods"]), "what": "pod", **one} for one in said["pods"]]
        columns = [Column("NAME", "name"), Column("WHAT", "what"), Column("JOB", "jobId"), Column("REASON", "reason")]
        _shown(rows, columns, given.form, "orphan", "no orphan")


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="NODE...", shell_complete=node_names)
@common
def drain(given: Common, names: tuple[str, ...]) -> None:
    """Let Slurm start nothing more on NODE: it is cordoned, and drained in Slurm for that. Nothing is evicted."""
    _each_node(given, names, of_nodes.drain)


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="NODE...", shell_complete=node_names)
@common
def resume(given: Common, names: tuple[str, ...]) -> None:
    """Undo `drain`: uncordon NODE. A drain that somebody put on in Slurm is not lifted by this."""
    _each_node(given, names, of_nodes.resume)


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def doctor(arguments: tuple[str, ...]) -> None:
    """Check the installation: all that `slurm-extender doctor` does, with its flags (docs/doctor.md)."""
    from extender import cli  # noqa: PLC0415 - no other command needs the configuration

    cli.doctor.main(list(arguments), prog_name="kubectl slurm doctor")


@contextmanager
def asking(given: Common) -> Iterator[Asking]:
    """The API server, and the errors of it as people read them."""
    try:
        to = target(given.access, os.environ, Path.home())
        with Api(to, given.timeout_s) as api:
            leader = of_status.leader_of(api, given.extender_namespace, given.lease)
            yield Asking(api, Debug(api, given.extender_namespace, leader, given.debug_url), given)
    except KubeconfigError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(USAGE)
    except (NotThere, NotAllowed, Away) as error:
        raise click.ClickException(str(error)) from error


def _each_node(given: Common, names: tuple[str, ...], act: Any) -> None:
    failed = False
    with asking(given) as ask:
        for name in names:
            try:
                click.echo(act(ask.api, _node(ask, name)))
            except (ValueError, click.ClickException, NotAllowed) as error:
                failed = True
                click.echo(f"Error: {error.message if isinstance(error, click.ClickException) else error}", err=True)
    if failed:
        sys.exit(1)


def _pod(ask: Asking, name: str) -> Json:
    namespace, _, bare = name.removeprefix("pod/").removeprefix("pods/").rpartition("/")
    where = namespace or ask.api.namespace
    try:
        found = ask.api.get(f"/api/v1/namespaces/{where}/pods/{bare}")
    except NotThere:
        raise click.ClickException(f"there is no Pod {bare} in namespace {where}") from None
    scheduler = (found.get("spec") or {}).get("schedulerName", "")
    if scheduler != ask.given.scheduler:
        wanted = ask.given.scheduler
        raise click.ClickException(
            f"Pod {where}/{bare} is not Slurm's to place: its schedulerName is {scheduler!r}, not {wanted!r}"
        )
    return found


def _node(ask: Asking, name: str) -> Json:
    try:
        return ask.api.get(f"/api/v1/nodes/{name.removeprefix('node/')}")
    except NotThere:
        raise click.ClickException(f"there is no Node {name}") from None


def _why(ask: Asking, pod: Json, row: Mapping[str, Any]) -> tuple[str, str]:
    """The sentence, and who told it. The condition is behind by seconds, the leader is not."""
    if row["state"] in {"Succeeded", "Failed", "Ending"}:
        return f"It does not wait: it is {row['state'].lower()}.", "the Pod"
    try:
        said = ask.debug.get(f"placeholders/{row['uid']}")
    except Unreached as error:
        if ask.given.debug_url:
            _remark(error, "what stands on the Pod is shown")
        said = None
    if said and said.get("why"):
        return str(said["why"]), "the extender"
    if row["state"] == "Placed":
        job = f"Slurm job {row['job']} has" if row["job"] else "No Slurm job is known that has"
        return f"It does not wait: {job} {row['node']} for the Pod.", "the Pod"
    if row["why"]:
        return row["why"], "its condition"
    return of_pods.without_word(pod, of_pods.events_of(ask.api, pod)), "its Events"


def _shown(rows: list[Json], columns: list[Column], form: Form, kind: str, nothing: str) -> None:
    if not rows and form in {Form.TABLE, Form.WIDE}:
        click.echo(nothing, err=True)
    else:
        show(rows, columns, form, kind)


def _remark(error: Unreached, so: str) -> None:
    click.echo(f"{error}; {so}", err=True)
