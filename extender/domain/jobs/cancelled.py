"""Record on a waiting Pod that a user cancelled its job, so that a restarted extender submits none again.

The record holds for one Pod and one request: jobs are submitted for a copy of the Pod and for a Pod that was changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass

from extender.domain.jobs.job import JobRequest
from extender.domain.views import PodView
from extender.domain.wellknown import CANCELLED

_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Hold the job that was cancelled, and a digest of its request."""

    job_id: int
    digest: str

    def speaks_of(self, request: JobRequest | None) -> bool:
        """Return whether the cancelled job had this request."""
        return request is not None and digest(request) == self.digest

    @property
    def text(self) -> str:
        """Return the sentence for the Pod's users."""
        return f"Slurm job {self.job_id} was cancelled. {HOW_TO_RESUBMIT}"


HOW_TO_RESUBMIT = "Re-create or change the Pod to submit it again."


def digest(request: JobRequest) -> str:
    """Return a digest that is the same for equal requests, also in a later release: unset fields are left out."""
    fields_set = {
        field.name: value for field in fields(request) if (value := getattr(request, field.name)) != _unsaid(field)
    }
    text = json.dumps(fields_set, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def encode_cancelled(cancelled: Cancelled, uid: str) -> str:
    """Return the text of the annotation on the Pod with this UID."""
    return json.dumps({"job": cancelled.job_id, "pod": uid, "request": cancelled.digest}, separators=(",", ":"))


def decode_cancelled(text: str, uid: str) -> Cancelled | None:
    """Return the record in the annotation of the Pod with this UID; `None`: there is none, or it is another Pod's."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("pod") != uid:
        return None
    job_id, request = found.get("job"), found.get("request")
    return Cancelled(job_id, request) if type(job_id) is int and type(request) is str else None


def recorded_cancel(pod: PodView) -> Cancelled | None:
    """Return the cancel that this Pod records."""
    text = pod.annotations.get(CANCELLED, "")
    return decode_cancelled(text, pod.uid) if text else None


def _unsaid(field: Field[object]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} is no part of a request")
