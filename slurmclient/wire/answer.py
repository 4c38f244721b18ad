"""Read replies to requests that create or end jobs."""

from __future__ import annotations

import re

from slurmclient.errors import ProtocolError
from slurmclient.models.answer import CancelStatus, FoundJob, SlurmWarning, SubmitResult
from slurmclient.number import decode_integer
from slurmclient.wire.envelope import Envelope
from slurmclient.wire.fields import Raw, mapping, text

#: slurm_errno.h: ESLURM_TRANSITION_STATE_NO_UPDATE, the answer to signal 0 for a pending job.
_NOT_SIGNALABLE = 2020

#: ESLURM_INVALID_JOB_ID and ESLURM_ALREADY_DONE: not live.
_ENDED = frozenset({2017, 2021})


def read_job_id(envelope: Envelope) -> int:
    """Return the id of the new job, 0 if the reply names none; v0.0.40 has it under `result` as well."""
    payload = envelope.payload
    return _job_id(payload) or _job_id(mapping(payload, "result"))


def _job_id(raw: Raw) -> int:
    """Return `job_id`, 0 where it can be that of no job."""
    found = decode_integer(raw.get("job_id")) or 0
    return found if 0 < found < 2**32 else 0


def read_submission(envelope: Envelope) -> SubmitResult:
    """Read the reply to a submission or allocation that created a job, also if it reports errors.

    A job that exists must not be lost over a complaint: errors beside an id are kept as warnings.
    """
    errors = tuple(SlurmWarning(error.description, error.source) for error in envelope.errors)
    return SubmitResult(
        job_id=read_job_id(envelope),
        warnings=tuple(dict.fromkeys(envelope.warnings + errors)),
        user_message=text(envelope.payload, "job_submit_user_msg"),
    )


def has_statuses(envelope: Envelope) -> bool:
    """Return whether the reply to `DELETE /jobs` reports single jobs."""
    return bool(envelope.payload.get("status"))


def read_cancellations(envelope: Envelope) -> tuple[CancelStatus, ...]:
    """Read the `status` of `DELETE /jobs`, one entry for each job with the flag VERBOSE."""
    return tuple(status for status in _statuses(envelope) if status.job_id)


def read_found(envelope: Envelope) -> tuple[FoundJob, ...]:
    """Read the live jobs that the probe by name found.

    Raises:
        ProtocolError: the list is missing or names a job that cannot be read; that does not mean "none".
    """
    if not isinstance(envelope.payload.get("status"), list):
        raise ProtocolError("the reply has no list 'status'", endpoint=envelope.endpoint, http_status=envelope.status)
    statuses = _statuses(envelope)
    if not all(status.job_id for status in statuses):
        raise ProtocolError("the reply speaks of a job without id", endpoint=envelope.endpoint)
    return tuple(
        FoundJob(job_id=status.job_id, running=status.code != _NOT_SIGNALABLE, code=status.code)
        for status in statuses
        if status.code not in _ENDED
    )


def _statuses(envelope: Envelope) -> list[CancelStatus]:
    entries = envelope.payload.get("status")
    return [_status(entry) for entry in (entries if isinstance(entries, list) else ()) if isinstance(entry, dict)]


def _status(entry: Raw) -> CancelStatus:
    error = mapping(entry, "error")
    # For a job that slurmctld does not know, job_id is unset, and only the text of step_id names the job.
    job_id = _job_id(entry)
    if not job_id:
        named = re.match(r"([0-9]{1,10})(?![0-9])", text(entry, "step_id"), re.ASCII)
        job_id = int(named[1]) if named else 0
    code = decode_integer(error.get("code")) or 0
    return CancelStatus(
        job_id=job_id, code=code, message=text(error, "message") or text(error, "string") if code else ""
    )
