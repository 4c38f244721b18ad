"""A person's cancel of the job of a waiting Pod, as it is written on the Pod: it outlives the process that saw it.

It speaks of one Pod and of what that asked: a copy of the Pod, and a Pod that was changed, are asked for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass

from extender.domain.jobs.job import JobRequest

_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The job that was cancelled, and a digest of what it was asked for."""

    job_id: int
    digest: str

    def speaks_of(self, request: JobRequest | None) -> bool:
        """Whether it was this that the person did not want."""
        return request is not None and digest(request) == self.digest

    @property
    def text(self) -> str:
        """For people."""
        return f"Slurm job {self.job_id} was cancelled. {HOW_TO_ASK_AGAIN}"


HOW_TO_ASK_AGAIN = "Re-create or change the Pod to submit it again."


def digest(request: JobRequest) -> str:
    """The same for equal requests, also in a later release: a field that is not said is left out."""
    said = {field.name: value for field in fields(request) if (value := getattr(request, field.name)) != _unsaid(field)}
    text = json.dumps(said, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def encode_cancelled(cancelled: Cancelled, uid: str) -> str:
    """The text of the annotation on the Pod with this UID."""
    return json.dumps({"job": cancelled.job_id, "pod": uid, "request": cancelled.digest}, separators=(",", ":"))


def decode_cancelled(text: str, uid: str) -> Cancelled | None:
    """What the annotation says about the Pod with this UID; `None`: nothing, or about another one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("pod") != uid:
        return None
    job_id, said = found.get("job"), found.get("request")
    return Cancelled(job_id, said) if type(job_id) is int and type(said) is str else None


def _unsaid(field: Field[object]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} is no part of a request")
