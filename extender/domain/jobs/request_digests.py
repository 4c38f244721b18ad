"""Keep digests of a job's request in its mark, so that a restarted extender sees which fields of its Pod's changed.

The job's own fields do not show that: they also have Slurm's defaults and an administrator's `scontrol update`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

from extender.domain.jobs.cancelled import digest
from extender.domain.jobs.changes import FOLLOWED, NOT_SENT
from extender.domain.jobs.job import JobRequest, RequestDigests
from extender.domain.renewal import replace

_REST = ""
"""Stands for all fields together that no waiting job can follow."""

_DIGITS = 8

_UNSAID = {field.name: field.default for field in fields(JobRequest)}


def request_digests(request: JobRequest) -> RequestDigests:
    """Return a digest of each field of `request` that is set and can be followed, and one of all others."""
    values = {name: getattr(request, name) for name in FOLLOWED if getattr(request, name) != _UNSAID[name]}
    return (_REST, _of_rest(request)), *sorted((name, _of_one(value)) for name, value in values.items())


def same_but_for_what_follows(digests: RequestDigests, request: JobRequest) -> bool:
    """Return whether `digests` and `request` agree in all fields that no waiting job can follow, the user included."""
    return dict(digests).get(_REST) == _of_rest(request)


def request_of_job(digests: RequestDigests, request: JobRequest) -> JobRequest:
    """Return a request that differs from `request` in just the fields in which a job with these `digests` does.

    The job's own value is not known: the field is left out, or is a question mark. Without `digests`, as earlier
    releases wrote none, nothing is known to differ.
    """
    if not digests:
        return request
    was, now = dict(digests), dict(request_digests(request))
    if was.get(_REST) != now[_REST]:
        return replace(request, cpus=0)
    other = {name for name in FOLLOWED if was.get(name) != now.get(name)}
    if "partition" in other and request.time_limit_least is not None:
        other.add("time_limit_minutes")  # how much of its room was asked for depends on the partition
    otherwise: dict[str, Any] = {name: _otherwise(request, name) for name in other}
    return replace(request, **otherwise)


def _otherwise(request: JobRequest, name: str) -> object:
    if name == "members":
        return request.members + 1
    if name == "nice":
        return None if request.nice else 1
    if name == "time_limit_minutes":
        return None if request.time_limit_minutes is not None else 1
    return "" if getattr(request, name) else "?"


def _of_rest(request: JobRequest) -> str:
    unsaid: dict[str, Any] = {name: _UNSAID[name] for name in FOLLOWED | NOT_SENT}
    return digest(replace(request, **unsaid))[:_DIGITS]


def _of_one(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:_DIGITS]
