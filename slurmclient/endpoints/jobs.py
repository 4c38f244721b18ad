"""Calls about jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from slurmclient.call import Agreement, Call, check_job_id, missing_object, read_listing, request
from slurmclient.classification import Effect, error_for
from slurmclient.errors import InvalidRequestError, OutcomeUnknownError, ProtocolError
from slurmclient.exchange import Request
from slurmclient.models.answer import CancelStatus, FoundJob, SlurmWarning, SubmitResult
from slurmclient.models.description import LONGEST_TEXT_BYTES, JobDescription
from slurmclient.models.job import Job, ResourceNode
from slurmclient.models.listing import JobStates, Listing
from slurmclient.models.signal import PROBE, check_signal
from slurmclient.number import decode_integer, decode_time
from slurmclient.wire import answer
from slurmclient.wire.envelope import Envelope
from slurmclient.wire.fields import text
from slurmclient.wire.job import read_states
from slurmclient.wire.node import read_resource

T = TypeVar("T")

_CANCEL_FLAGS: Final = frozenset({"BATCH_JOB", "FULL_JOB", "FULL_STEPS_ONLY", "HURRY", "NO_SIBLING_JOBS"})


def submit(description: JobDescription) -> Call[SubmitResult]:
    """Queue a job."""
    if not description.external:
        if not description.script:
            raise InvalidRequestError("job description: a batch job needs a script; only an external one has none")
        if not description.environment:
            raise InvalidRequestError("job description: a script needs an environment, at least one KEY=value")

    def write(agreement: Agreement) -> Request:
        _check_directory(description, agreement)
        body = {"job": agreement.codec.write_job(description)}
        return request("POST", agreement.path("job", "submit"), body=body)

    return Call(Effect.CREATE, write, _read_submission, accept=_made_a_job)


def allocate(description: JobDescription) -> Call[SubmitResult]:
    """Start a job at once or not at all."""
    if description.user_id is not None:
        raise InvalidRequestError(
            f"allocation: slurmctld would ignore user_id={description.user_id}; give as_user=<name> to the call instead"
        )
    if description.script is not None or description.environment is not None:
        raise InvalidRequestError("allocation: it has no script and no environment; submit a batch job instead")
    if description.immediate is False:
        raise InvalidRequestError("allocation: immediate=False would block slurmrestd until the job starts")

    def write(agreement: Agreement) -> Request:
        agreement.need(agreement.capabilities.allocate, "allocations need v0.0.41 (Slurm 24.05)")
        _check_directory(description, agreement)
        body = {"job": agreement.codec.write_job(replace(description, immediate=True))}
        return request("POST", agreement.path("job", "allocate"), body=body)

    return Call(Effect.CREATE, write, _read_submission, accept=_made_a_job)


def job(job_id: int) -> Call[Job]:
    """Read one job."""
    check_job_id(job_id)

    def read(agreement: Agreement, envelope: Envelope) -> Job:
        entries = envelope.payload.get("jobs")
        # The id of an array gives all of its tasks; the one asked for is among them.
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and decode_integer(entry.get("job_id")) == job_id:
                try:
                    # `last_update` of one job is slurmctld's own now (`pack_one_job` in `job_mgr.c`).
                    as_of = decode_time(envelope.payload.get("last_update"))
                    return replace(agreement.codec.read_job(entry), as_of=as_of)
                except ValueError as error:
                    raise ProtocolError(f"job {job_id} cannot be read: {error}", endpoint=envelope.endpoint) from error
        raise missing_object(f"job {job_id}", envelope)

    return Call(Effect.READ, lambda agreement: request("GET", agreement.path("job", job_id)), read)


def job_states(job_ids: Sequence[int]) -> Call[JobStates]:
    """Read the state words of these jobs; of all, if none is named."""
    for job_id in job_ids:
        check_job_id(job_id)
    # slurmrestd takes a list as a repeated key only, whatever its specification says.
    query = tuple(("job_id", str(job_id)) for job_id in job_ids)
    return Call(
        Effect.READ,
        lambda agreement: request("GET", agreement.path("jobs", "state"), query=query),
        lambda agreement, envelope: read_states(envelope.payload, envelope.endpoint),
    )


def update_job(job_id: int, changes: JobDescription) -> Call[tuple[SlurmWarning, ...]]:
    """Change a job."""
    check_job_id(job_id)

    def read(agreement: Agreement, envelope: Envelope) -> tuple[SlurmWarning, ...]:
        # One entry for each task of an array; null or empty for a plain job.
        results = envelope.payload.get("results")
        for entry in results if isinstance(results, list) else ():
            number = decode_integer(entry.get("error_code")) if isinstance(entry, dict) else None
            if number:
                words = text(entry, "why") or text(entry, "error")
                raise error_for(number, envelope.status, Effect.CHANGE, endpoint=envelope.endpoint, description=words)
        return envelope.warnings

    return Call(
        Effect.CHANGE,
        lambda agreement: request("POST", agreement.path("job", job_id), body=agreement.codec.write_changes(changes)),
        read,
    )


def cancel(job_ids: Sequence[int], signal: str | int | None, flags: Collection[str]) -> Call[tuple[CancelStatus, ...]]:
    """End or signal jobs, always by `DELETE /jobs`.

    `DELETE /job/{id}` is never used: up to v0.0.41 its reply hides refusals, and an unknown signal kills.
    """
    for job_id in job_ids:
        check_job_id(job_id)
    for flag in flags:
        if flag not in _CANCEL_FLAGS:
            raise InvalidRequestError(f"cancel flag {flag!r} is not known; allowed: {', '.join(sorted(_CANCEL_FLAGS))}")
    body: dict[str, object] = {"jobs": [str(job_id) for job_id in job_ids]}
    if signal is not None:
        body["signal"] = check_signal(signal)
    return _delete_jobs(Effect.CHANGE, body, sorted(set(flags)), answer.read_cancellations)


def cancel_by_name(name: str) -> Call[tuple[CancelStatus, ...]]:
    """End the jobs of this name."""
    return _delete_jobs(Effect.CHANGE, {"job_name": _filter(name)}, [], answer.read_cancellations)


def find_jobs_by_name(name: str) -> Call[tuple[FoundJob, ...]]:
    """Find the jobs of this name by signal 0, which reaches no process.

    For the batch script only: for a job without one, slurmctld answers 2009 before it contacts a node (`job_mgr.c`,
    `job_signal`). Asked for all steps, it sends REQUEST_SIGNAL_TASKS to the nodes, and a node without slurmd is
    NOT_RESPONDING from then on and takes no job; RESUME and IDLE are refused, UNDRAIN does nothing.
    """
    body: dict[str, object] = {"job_name": _filter(name), "signal": PROBE}
    return _delete_jobs(Effect.READ, body, ["BATCH_JOB"], answer.read_found)


def resources(job_id: int) -> Call[Listing[ResourceNode]]:
    """Read the resources of a running job."""
    check_job_id(job_id)

    def write(agreement: Agreement) -> Request:
        agreement.need(agreement.capabilities.resources, "the layout of resources needs v0.0.44 (Slurm 25.11)")
        return request("GET", agreement.path("resources", job_id))

    return Call(Effect.READ, write, read_listing("nodes", read_resource, "node"))


def _delete_jobs(effect: Effect, body: dict[str, object], flags: list[str], read: Callable[[Envelope], T]) -> Call[T]:
    # Without VERBOSE only failures are reported. The statuses are valid also if the whole request has an error.
    whole = {**body, "flags": [*flags, "VERBOSE"]}
    return Call(
        effect,
        lambda agreement: request("DELETE", agreement.path("jobs"), body=whole),
        lambda agreement, envelope: read(envelope),
        accept=answer.has_statuses,
    )


def _filter(name: str) -> str:
    if not name.strip() or "\0" in name:
        raise InvalidRequestError(f"job name {name!r}: empty or with a zero byte, Slurm would take it for any name")
    if len(name.encode("utf-8", "surrogatepass")) > LONGEST_TEXT_BYTES:
        raise InvalidRequestError(f"job name {name[:40]!r}…: longer than {LONGEST_TEXT_BYTES} bytes, no job has it")
    return name


def _check_directory(description: JobDescription, agreement: Agreement) -> None:
    free = description.external and not agreement.capabilities.external_needs_directory
    if not description.current_working_directory and not free:
        raise InvalidRequestError("job description: current_working_directory is missing; Slurm refuses the job (2063)")


def _made_a_job(envelope: Envelope) -> bool:
    """Accept a reply with a job id, also if it reports errors: the job exists."""
    return 200 <= envelope.status < 300 and answer.read_job_id(envelope) > 0


def _read_submission(agreement: Agreement, envelope: Envelope) -> SubmitResult:
    if not answer.read_job_id(envelope):
        raise OutcomeUnknownError(
            "the reply reports success and names no job", endpoint=envelope.endpoint, http_status=envelope.status
        )
    return answer.read_submission(envelope)
