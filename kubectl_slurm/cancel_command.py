"""`cancel`: end Pods, and with them their Slurm jobs."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import Any

import click

from extender.domain.printable import printable
from kubectl_slurm import pods as of_pods
from kubectl_slurm.api import Api, Away, NotAllowed, NotThere
from kubectl_slurm.command_sources import command_sources
from kubectl_slurm.completion import pod_names
from kubectl_slurm.flags import Common, DryRun, common, dry_run_option, selector
from kubectl_slurm.group import PluginCommand
from kubectl_slurm.output import Form

Json = dict[str, Any]

RECREATED = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet", "Job"})
"""Kinds whose controller creates another Pod, which gets another Slurm job."""

MAY_DELETE = "the ClusterRole edit allows it: delete pods, create pods/eviction"


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The result for one Pod. `result` is one word for programs."""

    name: str
    namespace: str
    result: str
    message: str


@click.command(cls=PluginCommand, short_help="End Pods and their Slurm jobs")
@click.argument("names", nargs=-1, metavar="[POD]...", shell_complete=pod_names)
@selector
@dry_run_option
@common
def cancel(given: Common, names: tuple[str, ...], selector: str, dry_run: str) -> None:
    """End POD and its Slurm job: a waiting Pod is deleted, a placed one is evicted.

    An eviction respects disruption budgets and gives the Pod its grace period. The controller of the Pod creates
    another one, which waits in the queue again: scale the controller down, or suspend it, to leave the queue.

    \b
    Examples:
      kubectl slurm cancel train-0-x7k2p
      kubectl slurm cancel -l app=sweep --dry-run
    """
    if bool(names) == bool(selector):
        raise click.UsageError("specify Pod names or a label selector (-l), not both")
    dry, failed, rows = DryRun(dry_run), False, []
    with command_sources(given) as sources:
        found = (
            of_pods.pods_of(sources.api, given.scheduler, sources.namespace, selector)
            if selector
            else [sources.pod(name) for name in names]
        )
        if not found:
            raise click.ClickException(f"no Pod of the scheduler {given.scheduler} has the labels {selector}")
        for pod in found:
            try:
                done = _cancel(sources.api, pod, dry)
            except (NotThere, Away) as error:
                failed = True
                click.echo(printable(f"Error: {error}"), err=True)
            except NotAllowed as error:
                failed = True
                click.echo(printable(f"Error: {error} ({MAY_DELETE})"), err=True)
            else:
                rows.append(asdict(done))
                if given.form in {Form.TABLE, Form.WIDE}:
                    tried = "" if dry is DryRun.NONE else f" ({'server ' if dry is DryRun.SERVER else ''}dry run)"
                    click.echo(printable(f"pod/{done.name} {done.result}{tried}: {done.message}"))
        if given.form not in {Form.TABLE, Form.WIDE}:
            sources.show(rows, [], "pod")
    if failed:
        sys.exit(1)


def _cancel(api: Api, pod: Json, dry: DryRun) -> Cancelled:
    """End one Pod. The UID is a precondition: a successor of the same name is left alone."""
    row = of_pods.row_of(pod)
    name, namespace, state = row["name"], row["namespace"], row["state"]
    if state in {"Succeeded", "Failed", "Ending"}:
        return Cancelled(name, namespace, "unchanged", f"it is {state.lower()} already")
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    options: Json = {"preconditions": {"uid": row["uid"]}}
    if dry is DryRun.SERVER:
        options["dryRun"] = ["All"]
    evicts = state == "Placed"
    if dry is not DryRun.CLIENT:
        if evicts:
            meta = {"name": name, "namespace": namespace}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": options}
            api.create(f"{path}/eviction", body)
        else:
            api.delete(path, {"apiVersion": "v1", "kind": "DeleteOptions", **options})
    job = f"Slurm job {row['job']} ends with it" if row["job"] else "no Slurm job of it is known"
    return Cancelled(name, namespace, "evicted" if evicts else "deleted", f"{job}{_successor(pod)}")


def _successor(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    owner = next((one for one in owners if one.get("controller")), None)
    if owner is None or owner.get("kind") not in RECREATED:
        return ""
    return f"; {owner['kind']} {owner.get('name', '')} may create another Pod"
