"""Decide which changes of a Pod's request its waiting job can follow in place, keeping its age in the queue.

Each was tried on Slurm 24.11 and 26.05. A change of any other field (CPUs, memory, GRES, name, mode, user, begin time
...) makes another job, as does removing a field for which Slurm's own default would have to be known.
"""

from __future__ import annotations

from dataclasses import fields, replace

from extender.domain.jobs.job import JobRequest, JobView, OnNodeFailure

CLEARABLE = frozenset({"comment", "constraints", "prefer", "licenses", "dependency"})
"""Fields that can be removed again."""

FOLLOWED = CLEARABLE | {"account", "partition", "qos", "wckey", "time_limit_minutes", "nice", "members"}
"""Fields of a request that an update of a pending job sends."""

WHILE_RUNNING = frozenset({"comment", "time_limit_minutes"})
"""Fields that slurmctld changes while a job runs; it refuses most others (2073)."""

NOT_SENT = frozenset({"time_limit_least", "time_limit_by_site", "excluded_nodes"})
"""Fields that only say how other fields are sent."""


def changed(was: JobRequest, now: JobRequest) -> frozenset[str]:
    """Return the fields in which two requests differ."""
    return frozenset(f.name for f in fields(JobRequest) if getattr(was, f.name) != getattr(now, f.name))


def can_follow(was: JobRequest, now: JobRequest) -> bool:
    """Return whether an update can turn the request of a waiting job from `was` into `now`."""
    names = changed(was, now)
    if not names <= FOLLOWED | NOT_SENT or ("members" in names and not _can_resize(was, now)):
        return False
    return all(getattr(now, name) not in (None, "") for name in names & FOLLOWED - CLEARABLE - {"nice"})


def _can_resize(was: JobRequest, now: JobRequest) -> bool:
    """Return whether a pending gang of the size of `was` can get that of `now`.

    A job of one member and one of several differ in more than their size: a packed one counts memory by CPU, and one
    that outlives a node says so when it is submitted.
    """
    kept = now.on_node_failure is OnNodeFailure.KEEP
    return was.packed == now.packed and not (kept and min(was.members, now.members) == 1)


def can_follow_running(was: JobRequest, now: JobRequest) -> bool:
    """Return whether an update may turn the request of a running job from `was` into `now`."""
    return changed(was, now) <= WHILE_RUNNING | NOT_SENT and can_follow(was, now)


def while_running(was: JobRequest, now: JobRequest) -> JobRequest:
    """Return the part of `now` that a running job with request `was` follows: of time limits only its Pod's own.

    A policy or a default that changed while the job runs would end it sooner than promised.
    """
    if not now.time_limit_by_site or was.time_limit_minutes == now.time_limit_minutes:
        return now
    return replace(now, time_limit_minutes=was.time_limit_minutes, time_limit_least=was.time_limit_least)


def raises_limit(job: JobView, now: JobRequest) -> str:
    """Return why a running job gets no longer time limit; "": `now` asks for none.

    slurmctld lets only operators raise it, since it delays other jobs. The extender's right is no right of its Pods.
    """
    limit, most = now.time_limit_minutes, job.time_limit_minutes
    if job.state != "RUNNING" or limit is None or most is None or limit <= most:
        return ""
    return (
        f"it may run for {most} min; only an operator can extend a running job: "
        f"`scontrol update jobid={job.job_id} timelimit={limit}`."
    )
