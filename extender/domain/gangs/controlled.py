"""Recognise the gangs of LeaderWorkerSets, JobSets and Jobs by what their controllers write on Pods.

A function returns a sentence where the controller's annotation cannot be used, and `None` where there is no gang.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from extender.domain.gangs import labels
from extender.domain.gangs.context import (
    ControllerView,
    GangContext,
    JobGangs,
    JobSetAttempt,
    ReplicatedJob,
    Successes,
    keeps_allocation,
)
from extender.domain.gangs.membership import GangSource, MemberOrder, Membership
from extender.domain.gangs.order import order_of
from extender.domain.gangs.readers import quoted, read_index, read_size
from extender.domain.views import PodView
from extender.domain.wellknown import GANG

LWS_GROUP = "leaderworkerset.x-k8s.io"
JOBSET_GROUP = "jobset.x-k8s.io"
BATCH_GROUP = "batch"


KEPT = "kept"
"""Begins the identity of a gang that is the same in all incarnations of its owner (`gang-restart: keep-allocation`)."""


MOST_SUCCEEDED = 4096
"""Jobs of a JobSet whose succeeded Pods count: where there seem to be more, no gang is smaller for them."""


class JobSetGang(StrEnum):
    """Name the Pods of a JobSet that are one gang."""

    JOB = "job"
    """Those of each Job."""

    REPLICATED_JOB = "replicated-job"
    """Those of all Jobs of one entry of `replicatedJobs`."""

    SET = "set"
    """All of them."""


def is_of_leader_worker_set(pod: PodView) -> bool:
    """Return whether the Pod's labels place it in a group of a LeaderWorkerSet."""
    indexes = (labels.LWS_GROUP_INDEX, labels.LWS_WORKER_INDEX)
    return bool(pod.labels.get(labels.LWS_NAME)) and all(read_index(pod.labels.get(key)) is not None for key in indexes)


def of_leader_worker_set(pod: PodView, context: GangContext) -> Membership | str | None:
    """Return the group of a LeaderWorkerSet's Pod. Size and place are on the Pod, whichever rights there are."""
    name, group = pod.labels.get(labels.LWS_NAME), read_index(pod.labels.get(labels.LWS_GROUP_INDEX))
    worker = read_index(pod.labels.get(labels.LWS_WORKER_INDEX))
    if not name or group is None or worker is None:
        return None
    size = pod.annotations.get(labels.LWS_SIZE, "")
    title = f"LeaderWorkerSet {name}, group {group}"
    try:
        expected = read_size(size, context.largest)
    except ValueError as why:
        return f"{labels.LWS_SIZE}: {quoted(size)} is not allowed; {why}."
    leader = context.controller("", "Pod")  # the controller of the workers' StatefulSet
    uid = pod.uid if worker == 0 else leader.owner.uid if leader is not None else ""
    unknown = "" if uid else f"The leader Pod of {title} cannot be read."
    set_view = context.controller(LWS_GROUP, "LeaderWorkerSet")
    identity: tuple[str, ...] = (uid,) if uid else ()
    if keeps_allocation(pod, context.controllers):
        identity = (KEPT, set_view.owner.uid, str(group)) if set_view is not None else ()
        unknown = "" if identity else f"The LeaderWorkerSet of {title} cannot be read."
    return Membership(
        GangSource.LEADER_WORKER_SET,
        pod.namespace,
        title,
        identity,
        expected,
        MemberOrder((worker,), pod.name),
        unknown,
        by_leader=set_view is not None and set_view.in_order,
    )


def of_job_set(pod: PodView, context: GangContext) -> Membership | str | None:
    """Return the gang of a JobSet's Pod, as the annotation on the JobSet, or on the Pod, wants it."""
    name = pod.labels.get(labels.JOBSET_NAME)
    job_set = context.controller(JOBSET_GROUP, "JobSet")
    if not name or job_set is None:
        return None
    setting = (pod.annotations.get(GANG) or job_set.annotations.get(GANG) or "").strip()
    if not setting:
        return None
    try:
        of = JobSetGang(setting)
    except ValueError:
        return f"{GANG}: {quoted(setting)} on a JobSet is not allowed; it must be one of {', '.join(JobSetGang)}."
    keeps = keeps_allocation(pod, context.controllers)
    if of is JobSetGang.JOB:
        job = context.controller(BATCH_GROUP, "Job")
        found = _of_controller(pod, context, job, GangSource.JOB_SET)
        if job is None or not keeps or not isinstance(found, Membership):
            return found
        return replace(found, incarnation=(KEPT, job_set.owner.uid, job.owner.name))
    part = pod.labels.get(labels.JOBSET_REPLICATED_JOB, "")
    attempt = pod.labels.get(labels.JOBSET_ATTEMPT, "0")
    whole = of is JobSetGang.SET
    title = f"JobSet {name}" if whole else f"JobSet {name}, {part}"
    generation = (KEPT, job_set.owner.uid) if keeps else (job_set.owner.uid, attempt)
    identity = (*generation, *(() if whole else (part,)))
    entries = [one for one in job_set.replicated or () if whole or one.name == part]
    most = sum(one.jobs * one.pods for one in entries)
    if most > context.largest:
        return f"{title} has {most} Pods; at most {context.largest} are allowed in a gang."
    in_order = job_set.in_order and whole
    expected = most if in_order else _still_expected(pod, context, job_set, entries, attempt)
    return Membership(
        GangSource.JOB_SET,
        pod.namespace,
        title,
        identity,
        expected if entries else None,
        _job_set_order(pod, job_set, whole),
        "" if entries else f"The specification of {title} cannot be read.",
        most if entries else None,
        further=any(one.completions is not None and one.completions > one.pods for one in entries),
        by_leader=in_order,
    )


def _still_expected(
    pod: PodView, context: GangContext, job_set: ControllerView, entries: Sequence[ReplicatedJob], attempt: str
) -> int:
    """Return how many Pods of the gang have not succeeded since the JobSet was restarted last."""
    succeeded = context.succeeded(JobSetAttempt(pod.namespace, job_set.owner.uid, attempt))
    job = context.controller(BATCH_GROUP, "Job")
    own = job if job is not None and pod.owner is not None and pod.owner.uid == job.owner.uid else None
    counts = _counts(job_set.owner.name, succeeded if len(succeeded) <= MOST_SUCCEEDED else {}, own)
    current = attempt == str(job_set.restarts)
    return sum(
        _pods_left(job_set.owner.name, one, counts.get(one.name, {}), one.succeeded if current else 0, own)
        for one in entries
    )


def of_job(pod: PodView, context: GangContext) -> Membership | str | None:
    """Return the gang of a Job's Pod, if the Job, the Pod or the site wants one."""
    job = context.controller(BATCH_GROUP, "Job")
    if job is None or pod.owner is None or pod.owner.uid != job.owner.uid:
        return None
    setting = (pod.annotations.get(GANG) or job.annotations.get(GANG) or "").strip()
    if setting not in {"", "true", "false"}:
        return f"{GANG}: {quoted(setting)} on a Job is not allowed; it must be true or false."
    by_site = context.jobs is JobGangs.ALL or (context.jobs is JobGangs.INDEXED and job.indexed)
    if setting == "false" or not (setting or by_site):
        return None
    return _of_controller(pod, context, job, GangSource.JOB)


def _of_controller(
    pod: PodView, context: GangContext, job: ControllerView | None, source: GangSource
) -> Membership | str | None:
    if job is None:
        return None
    title = f"Job {job.owner.name}"
    if job.pods is not None and job.pods > context.largest:
        return f"{title} has {job.pods} Pods at a time; at most {context.largest} are allowed in a gang."
    unknown = "" if job.pods is not None else f"The specification of {title} cannot be read."
    order = order_of(pod)
    return Membership(
        source, pod.namespace, title, (job.owner.uid,), job.pods, order, unknown, job.most, further=job.further
    )


def _counts(job_set: str, succeeded: Successes, own: ControllerView | None) -> dict[str, dict[int, int]]:
    """Return how many Pods of each Job have succeeded, by the entry of the JobSet and the Job's number in it.

    A Job that was deleted and is created again counts with the smaller number; of the Job `own` the UID is known.
    """
    found: dict[str, dict[int, int]] = {}
    for (name, uid), places in succeeded.items():
        if not name.startswith(f"{job_set}-") or (own is not None and own.owner.name == name and own.owner.uid != uid):
            continue
        entry, _, number = name.removeprefix(f"{job_set}-").rpartition("-")
        index = read_index(number)
        if index is not None and str(index) == number:
            of_entry = found.setdefault(entry, {})
            of_entry[index] = min(len(places), of_entry.get(index, len(places)))
    return found


def _pods_left(
    job_set: str, entry: ReplicatedJob, counts: Mapping[int, int], jobs_succeeded: int, own: ControllerView | None
) -> int:
    """Return how many Pods the Jobs of this entry run beside each other, without those that have succeeded.

    A Job that does not say how many Pods have to succeed counts in full. `jobs_succeeded` Jobs have succeeded, whether
    their Pods exist or not. It is not known which: the result is the largest number that is possible. `own` is the Job
    of the Pod that is recognised: it is none of these, and its own status says how many of its Pods have succeeded.
    """
    needed = entry.pods if entry.completions is None else entry.completions
    ended = {} if entry.completions is None else counts
    left = {number: max(0, min(entry.pods, needed - ended[number])) for number in ended if number < entry.jobs}
    jobs, own_pods = entry.jobs, 0
    prefix = f"{job_set}-{entry.name}-"
    if own is not None and own.owner.name.startswith(prefix):
        number = read_index(own.owner.name.removeprefix(prefix))
        if number is not None and number < entry.jobs:
            jobs, own_pods = jobs - 1, left.pop(number, entry.pods)
            own_pods = own_pods if own.pods is None else min(own_pods, own.pods)
    known = sorted(left.values())
    untouched = max(0, jobs - len(known) - max(0, jobs_succeeded - len(known)))
    return own_pods + sum(known[jobs_succeeded:]) + untouched * entry.pods


def _job_set_order(pod: PodView, job_set: ControllerView, whole: bool) -> MemberOrder:
    """Return the rank in the gang as the specification gives it; else the Job's number and the completion index.

    In a JobSet that starts in order, later Pods have no node yet when the first ones get theirs. Their rank therefore
    must not depend on which Pods exist.
    """
    of_job = read_index(pod.labels.get(labels.JOBSET_GLOBAL_INDEX))
    own = order_of(pod)
    rank = _rank_in_set(pod, job_set, whole, of_job, own)
    if rank is not None:
        return MemberOrder((rank,), pod.name)
    if of_job is None:
        of_job = read_index(pod.labels.get(labels.JOBSET_JOB_INDEX))
    return own if of_job is None else MemberOrder((of_job, *own.index), pod.name)


def _rank_in_set(
    pod: PodView, job_set: ControllerView, whole: bool, of_job: int | None, own: MemberOrder
) -> int | None:
    """Return how many Pods of the gang come before this one; `None`: the specification does not foresee the Pod."""
    if of_job is None or len(own.index) != 1:
        return None
    jobs_before = pods_before = 0
    for entry in job_set.replicated or ():
        if entry.name == pod.labels.get(labels.JOBSET_REPLICATED_JOB):
            job, completion = of_job - jobs_before, own.index[0]
            if not (0 <= job < entry.jobs and completion < entry.pods):
                return None
            return (pods_before if whole else 0) + job * entry.pods + completion
        jobs_before += entry.jobs
        pods_before += entry.jobs * entry.pods
    return None
