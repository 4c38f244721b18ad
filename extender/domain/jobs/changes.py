"""Which changes of a Pod's wishes its waiting job can follow in place, keeping its age in the queue.

Each was tried on Slurm 24.11 and 26.05. What is not here (CPUs, memory, GRES, name, mode, user, begin time ...) makes
another job, as does taking away a wish for which Slurm's own default would have to be known.
"""

from __future__ import annotations

from dataclasses import fields, replace

from extender.domain.jobs.job import JobRequest, JobView

CLEARABLE = frozenset({"comment", "constraints", "prefer", "licenses", "dependency"})
"""Wishes that can be taken away again."""

FOLLOWED = CLEARABLE | {"account", "partition", "qos", "wckey", "time_limit_minutes", "nice"}
"""Fields of a request that an update of a pending job tells."""

WHILE_RUNNING = frozenset({"comment", "time_limit_minutes"})
"""Fields that slurmctld changes of a job that runs; of the others it refuses most (2073)."""

NOT_TOLD = frozenset({"time_limit_least", "time_limit_by_site", "excluded_nodes"})
"""Fields that say how others are told."""


def changed(was: JobRequest, now: JobRequest) -> frozenset[str]:
    """The fields in which two requests differ."""
    return frozenset(f.name for f in fields(JobRequest) if getattr(was, f.name) != getattr(now, f.name))


def can_follow(was: JobRequest, now: JobRequest) -> bool:
    """Whether a waiting job that asks for `was` can be made to ask for `now`."""
    names = changed(was, now)
    if not names <= FOLLOWED | NOT_TOLD:
        return False
    return all(getattr(now, name) not in (None, "") for name in names & FOLLOWED - CLEARABLE - {"nice"})


def can_follow_running(was: JobRequest, now: JobRequest) -> bool:
    """Whether a running job that asks for `was` may be made to ask for `now`."""
    return changed(was, now) <= WHILE_RUNNING | NOT_TOLD and can_follow(was, now)


def while_running(was: JobRequest, now: JobRequest) -> JobRequest:
    """What a running job that asks for `was` is to be told of `now`: no time limit but one that its Pod itself asks.

    A policy or a default that changed while it runs would end it sooner than it was promised.
    """
    if not now.time_limit_by_site or was.time_limit_minutes == now.time_limit_minutes:
        return now
    return replace(now, time_limit_minutes=was.time_limit_minutes, time_limit_least=was.time_limit_least)


def raises_limit(job: JobView, now: JobRequest) -> str:
    """Why a running job is not given more time; "" where it is not. slurmctld allows that to operators alone, who pay
    for what others were promised; that the extender is one gives its Pods no such right.
    """
    limit, most = now.time_limit_minutes, job.time_limit_minutes
    if job.state != "RUNNING" or limit is None or most is None or limit <= most:
        return ""
    return (
        f"it runs, and may for {most} min; only operators raise the time limit of a running job: "
        f"`scontrol update jobid={job.job_id} timelimit={limit}`."
    )
