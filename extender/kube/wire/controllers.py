"""Read the specification of Jobs, JobSets and LeaderWorkerSets: the size of their gangs, and a Job's deadline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from extender.domain.gangs.context import ControllerView, ReplicatedJob
from extender.domain.gangs.controlled import BATCH_GROUP, JOBSET_GROUP, LWS_GROUP
from extender.domain.views import OwnerReference
from extender.kube.wire.fields import Fields, parsed

MOST_ENTRIES = 256
"""Entries of `replicatedJobs` that are read."""

IN_ORDER = frozenset({"InOrder", "LeaderReady"})
"""Values of the startup policy with which later Pods are created only after earlier ones are Ready."""


def has_size(owner: OwnerReference) -> bool:
    """Return whether the size of a gang follows from the specification of this kind."""
    return (owner.api_version.rpartition("/")[0], owner.kind) in _READERS


def with_size(view: ControllerView, body: bytes) -> ControllerView:
    """Return the controller with what its specification says. Raises MalformedObject."""
    owner = view.owner
    return _READERS[owner.api_version.rpartition("/")[0], owner.kind](view, parsed(owner.kind, body))


def _job(view: ControllerView, job: Fields) -> ControllerView:
    spec = job.inner("spec")
    pods = _pods(spec, job.inner("status").number("succeeded") or 0)
    indexed, deadline_s = spec.text("completionMode") == "Indexed", spec.number("activeDeadlineSeconds")
    completions = spec.number("completions")
    further = completions is not None and completions > _given(spec.number("parallelism"), 1)
    return replace(view, pods=pods, most=_pods(spec, 0), further=further, indexed=indexed, deadline_s=deadline_s)


def _job_set(view: ControllerView, job_set: Fields) -> ControllerView:
    spec, status = job_set.inner("spec"), job_set.inner("status")
    entries = spec.each("replicatedJobs", MOST_ENTRIES)
    succeeded = _succeeded_jobs(status)
    replicated = tuple(_replicated_job(one, succeeded.get(one.text("name"), 0)) for one in entries)
    ordered = spec.inner("startupPolicy").text("startupPolicyOrder") in IN_ORDER
    in_order = ordered or any(one.count("dependsOn") for one in entries)
    return replace(view, replicated=replicated, restarts=status.number("restarts") or 0, in_order=in_order)


def _succeeded_jobs(status: Fields) -> Mapping[str, int]:
    """Return how many Jobs of each entry of a JobSet have succeeded since its last restart.

    The status that first has the number of a restart still counts the Jobs from before, with those that failed.
    """
    entries = status.each("replicatedJobsStatus", MOST_ENTRIES)
    if any(one.number("failed") for one in entries):
        return {}
    return {one.text("name"): max(0, one.number("succeeded") or 0) for one in entries}


def _replicated_job(entry: Fields, succeeded: int) -> ReplicatedJob:
    job = entry.inner("template").inner("spec")
    completions = job.number("completions")
    if completions is None and job.number("parallelism") is None:
        completions = 1  # as the API server sets it
    jobs, pods = max(0, _given(entry.number("replicas"), 1)), max(0, _pods(job, 0))
    return ReplicatedJob(entry.text("name"), jobs, pods, completions, succeeded)


def _leader_worker_set(view: ControllerView, lws: Fields) -> ControllerView:
    return replace(view, in_order=lws.inner("spec").text("startupPolicy") in IN_ORDER)


def _pods(spec: Fields, succeeded: int) -> int:
    """Return how many Pods of a Job run beside each other."""
    most, completions = _given(spec.number("parallelism"), 1), spec.number("completions")
    return most if completions is None else max(0, min(most, completions - succeeded))


def _given(number: int | None, default: int) -> int:
    return default if number is None else number


_READERS = {
    (BATCH_GROUP, "Job"): _job,
    (JOBSET_GROUP, "JobSet"): _job_set,
    (LWS_GROUP, "LeaderWorkerSet"): _leader_worker_set,
}
