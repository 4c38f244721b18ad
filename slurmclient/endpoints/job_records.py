"""Calls about jobs as slurmdbd keeps them."""

from __future__ import annotations

from slurmclient.call import Agreement, Call, check_job_id, read_nothing, request
from slurmclient.classification import Effect
from slurmclient.errors import InvalidRequestError
from slurmclient.exchange import Request
from slurmclient.models.accounting import JobRecord
from slurmclient.models.description import LONGEST_TEXT_BYTES
from slurmclient.wire.accounting import read_job_record
from slurmclient.wire.envelope import Envelope
from slurmclient.wire.fields import listing, text

_MISSING = "this slurmrestd does not serve slurmdbd (it runs with -s slurmctld, or the cluster has no slurmdbd)"

_LONGEST_STATUS = 2**16
"""A wait status has 16 bits."""


def job_record(job_id: int) -> Call[JobRecord | None]:
    """Read the newest job of this id; `None`: slurmdbd knows none."""
    check_job_id(job_id)

    def read(agreement: Agreement, envelope: Envelope) -> JobRecord | None:
        found = listing(
            envelope.payload, "jobs", read_job_record, name=lambda raw: text(raw, "job_id"), endpoint=envelope.endpoint
        )
        records = [one for one in found if one.job_id == job_id]
        return max(records, key=lambda one: one.submitted_at, default=None)

    return Call(
        Effect.READ, lambda agreement: request("GET", agreement.database_path("job", job_id)), read, missing=_MISSING
    )


def update_job_record(job_id: int, wait_status: int, comment: str | None) -> Call[None]:
    """Replace the derived exit code of the newest job of this id, and its comment unless `None`.

    `return_code` of the request is the wait status as a whole: slurmdbd stores the number as it comes, and sacct
    splits it.
    """
    check_job_id(job_id)
    if not 0 <= wait_status < _LONGEST_STATUS:
        raise InvalidRequestError(f"wait status {wait_status}: a number from 0 to {_LONGEST_STATUS - 1}")
    if comment is not None and len(comment.encode("utf-8", "surrogatepass")) > LONGEST_TEXT_BYTES:
        raise InvalidRequestError(f"comment of job {job_id}: longer than {LONGEST_TEXT_BYTES} bytes")
    body: dict[str, object] = {"derived_exit_code": {"return_code": {"set": True, "number": wait_status}}}
    if comment is not None:
        body["comment"] = {"job": comment}

    def write(agreement: Agreement) -> Request:
        agreement.need(agreement.capabilities.job_records, "records of jobs can be changed from v0.0.44 on (25.11)")
        return request("POST", agreement.database_path("job", job_id), body=body)

    return Call(Effect.CHANGE, write, read_nothing, missing=_MISSING)
