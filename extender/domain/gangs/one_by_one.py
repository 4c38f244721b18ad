"""Recognise Pods that probably need each other and are placed one by one, to warn their author."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from extender.domain.gangs import labels
from extender.domain.gangs.controlled import BATCH_GROUP
from extender.domain.gangs.membership import GangSource
from extender.domain.gangs.readers import LONGEST_NAME, read_index
from extender.domain.gangs.recognition import group_of
from extender.domain.printable import printable
from extender.domain.views import PodView


@dataclass(frozen=True, slots=True)
class Parallel:
    """A group of Pods beside each other. `key` is the same for all of them, `title` names their owner."""

    key: tuple[str, ...]
    title: str
    certain: bool
    """One Pod shows that there are several. Otherwise a second Pod with the same key does."""

    unread: bool = False
    """The Pods name a group that the extender does not read."""


def parallel_of(pod: PodView, groups_read: Collection[GangSource] = ()) -> Parallel | None:
    """Return the group of a Pod whose controller runs such Pods beside each other; `None`: nothing says so.

    Deployments, StatefulSets and DaemonSets are left out: their Pods serve by themselves, unless they name a group.
    The author of a PodGroup that is read (`groups_read`) and makes no gang wanted none.
    """
    if (group := group_of(pod)) is not None and group.source in groups_read:
        return None
    if group is not None:
        return _unread("PodGroup", group.source, pod.namespace, group.name)
    if pod.workload_ref:
        return _unread("Workload", "workloadRef", pod.namespace, pod.workload_ref)
    if name := _label(pod, labels.JOBSET_NAME):
        return Parallel(("JobSet", pod.namespace, name), f"JobSet {name}", certain=False)
    if name := _label(pod, labels.LWS_NAME):
        several = (read_index(pod.annotations.get(labels.LWS_SIZE)) or 0) > 1
        title = f"LeaderWorkerSet {name}"
        return Parallel(("LeaderWorkerSet", pod.namespace, name), title, certain=True) if several else None
    if name := _label(pod, labels.KUBEFLOW_JOB):
        kind = pod.owner.kind if pod.owner is not None else "Job"
        title = f"{printable(kind[:LONGEST_NAME])} {name}"
        return Parallel(("Kubeflow", pod.namespace, name), title, certain=False)
    owner = pod.owner
    if owner is None or owner.kind != "Job" or owner.api_version.partition("/")[0] != BATCH_GROUP:
        return None
    return Parallel(("Job", pod.namespace, owner.uid), f"Job {printable(owner.name[:LONGEST_NAME])}", certain=False)


def _unread(kind: str, source: str, namespace: str, name: str) -> Parallel:
    """Return the PodGroup that the Pod names, or the Workload of Kubernetes 1.35 (`spec.workloadRef`)."""
    shown = printable(name[:LONGEST_NAME])
    return Parallel((kind, source, namespace, shown), f"{kind} {shown}", certain=False, unread=True)


def _label(pod: PodView, key: str) -> str:
    return printable(pod.labels.get(key, "")[:LONGEST_NAME])
