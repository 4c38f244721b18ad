"""Which changes of a Pod's wishes its waiting job can follow in place, keeping its age in the queue.

Each was tried on Slurm 24.11 and 26.05. What is not here (CPUs, memory, GRES, name, mode, user, begin time ...) makes
another job, as does taking away a wish for which Slurm's own default would have to be known.
"""

from __future__ import annotations

from dataclasses import fields

from extender.domain.job import JobRequest

CLEARABLE = frozenset({"comment", "constraints", "prefer", "licenses", "dependency"})
"""Wishes that can be taken away again."""

FOLLOWED = CLEARABLE | {"account", "partition", "qos", "wckey", "time_limit_minutes", "nice"}
"""Fields of a request that an update of a pending job tells."""

NOT_TOLD = frozenset({"time_limit_least", "excluded_nodes"})
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
