"""Placeholder jobs through slurmrestd: implements `ports.SlurmJobs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog

from extender.domain.events import (
    CancelAnswered,
    Event,
    FollowAnswered,
    ShrinkAnswered,
    SubmitAccepted,
    SubmitRefused,
    SubmitUnknown,
    Unshrinkable,
)
from extender.domain.job_outcomes.slurm_states import Ending, Running, Starting, Waiting, observe
from extender.domain.jobs.identity import encode_mark
from extender.domain.jobs.job import JobOrder, JobRequest, JobView, Mode
from extender.domain.jobs.ownership import proof
from extender.domain.ports import Clock, PortError, SlurmJobs, Updated
from extender.slurm.api_requests import ObserveRequest, as_port_error, timed, unobserved
from extender.slurm.describe import describe, describe_changes
from extender.slurm.job_view import job_view
from extender.slurm.placeholder_script import HookSettings
from extender.slurm.signals import FRESH_S, Signals
from slurmclient import (
    AuthenticationError,
    CallOptions,
    CancelStatus,
    CapacityError,
    ConnectError,
    ControllerUnavailableError,
    InvalidRequestError,
    JobDescription,
    NotFoundError,
    RefusedError,
    SlurmClient,
    SlurmError,
    UnsupportedError,
)

_log = structlog.get_logger(__name__)

_NO_SUCH_JOB = 2017
"""ESLURM_INVALID_JOB_ID (slurm_errno.h)."""

_ALREADY_DONE = 2021
"""ESLURM_ALREADY_DONE."""

_FORBIDDEN = frozenset({2002, 2010})
"""ESLURM_ACCESS_DENIED and ESLURM_USER_ID_MISSING."""

_WRITING_TO_FILE = 2019
"""ESLURM_WRITING_TO_FILE: slurmctld cannot save the job's script, since the disk of its state is full or away."""

_SUCCEEDED, _FAILED = "USR2", "HUP"
"""What `placeholder.sh` takes for the end of its Pod. USR1 is Slurm's own warning, TERM its end."""

_SOON: CallOptions = {"repeat_within_s": FRESH_S}
"""For changes by a job's id: whose job that is was read just before, and a later repetition needs that read again."""


class SlurmrestdJobs:
    """Asks Slurm for placeholders and about them."""

    def __init__(
        self,
        client: SlurmClient,
        clock: Clock,
        *,
        hooks: HookSettings | None = None,
        observe_request: ObserveRequest = unobserved,
    ) -> None:
        self._client = client
        self._clock = clock
        self._hooks = hooks or HookSettings()
        self._observe = observe_request
        self._cancels = Signals(self._cancel)
        self._finishes = {signal: Signals(partial(self._finish, signal)) for signal in (_SUCCEEDED, _FAILED)}

    async def submit(self, order: JobOrder) -> Sequence[Event]:
        """Make the job that `order` describes. One event; see `ports.SlurmJobs`."""
        attempt = order.mark.attempt
        try:
            description = describe(order, encode_mark(order.mark), self._hooks)
        except ValueError as error:  # slurmclient and the mark say so what they cannot write
            return [SubmitRefused(attempt, permanent=True, text=str(error))]
        try:
            async with timed("allocate" if order.immediate else "submit", self._clock, self._observe):
                request = self._client.allocate if order.immediate else self._client.submit
                result = await request(description)
        except SlurmError as error:
            return [_failed(order, error)]
        for warning in result.warnings:
            _log.info("slurm_warning", job_id=result.job_id, text=warning.description, source=warning.source)
        return [SubmitAccepted(attempt, result.job_id, order.excluded, order.mode)]

    async def probe(
        self, name: str, workload: str, job_id: int | None, owner: int | None = None, hints: Sequence[int] = ()
    ) -> Sequence[JobView]:
        """Read `job_id` and, unless that lives, every live job called `name`; give those that are of `workload`.

        `domain.jobs.ownership` decides which those are; `owner` is the user for whom its jobs are submitted.
        A job of `hints` counts only if its own mark or name proves that it belongs to the workload.
        The search by name is signal 0 for the batch script, which slurmctld passes on to the node of a running batch
        job: of no use where the job is known.
        """
        known = await self.read(job_id) if job_id is not None else None
        if known is not None and _lives(known) and proof(known, workload, name, recorded=True, owner=owner):
            return [known]
        async with as_port_error(f"jobs named {name!r}"), timed("find", self._clock, self._observe):
            found = await self._client.find_jobs_by_name(name)
        ids = {job.job_id for job in found} | ({job_id} if job_id is not None else set()) | set(hints)
        jobs = [await self.read(one) for one in sorted(ids)]
        return [
            job
            for job in jobs
            if job is not None and proof(job, workload, name, recorded=job.job_id == job_id, owner=owner)
        ]

    async def read(self, job_id: int) -> JobView | None:
        """Read one job."""
        try:
            async with as_port_error(f"job {job_id}"), timed("job", self._clock, self._observe):
                return job_view(await self._client.job(job_id))
        except PortError as error:
            # slurmclient takes only Slurm's own number for it, not any 404 that a proxy may give.
            if isinstance(error.__cause__, NotFoundError):
                return None
            raise

    async def states(self, job_ids: Sequence[int] | None = None) -> Mapping[int, frozenset[str]]:
        """Return the state words of all jobs, or of those named. An absent id proves nothing until `read` confirms."""
        which, what = ("all jobs", "states") if job_ids is None else (f"{len(job_ids)} jobs", "states_of_some")
        async with as_port_error(f"the states of {which}"), timed(what, self._clock, self._observe):
            states = await self._client.job_states(job_ids)
        if states.unreadable:
            _log.warning("slurm_states_unreadable", count=len(states.unreadable), first=states.unreadable[0].why)
        return states

    async def cancel(self, job_id: int) -> CancelAnswered:
        """End one job; sent as the token's owner alone, since a foreign DELETE can hang slurmctld."""
        try:
            statuses = await self._cancels.signal(job_id)
        except SlurmError as error:
            return CancelAnswered(job_id, job_ended=False, text=str(error))
        return _cancelled(job_id, statuses)

    async def finish(self, job_id: int, exit_code: int) -> CancelAnswered:
        """Signal the script alone. A job without one answers 2009, one that waits 2020: both are cancelled."""
        try:
            statuses = await self._finishes[_FAILED if exit_code else _SUCCEEDED].signal(job_id)
        except SlurmError as error:
            return CancelAnswered(job_id, job_ended=False, text=str(error))
        answer = _cancelled(job_id, statuses)
        refused = any(status.job_id == job_id and status.code for status in statuses)
        return await self.cancel(job_id) if refused and not answer.job_ended else answer

    async def comment(self, job_id: int, text: str, *, within_s: float | None = None) -> bool:
        """Replace the comment; slurmctld takes it until the job ends, and not while it is COMPLETING (2084)."""
        try:
            async with timed("update", self._clock, self._observe):
                await self._client.update_job(job_id, JobDescription(comment=text), deadline_s=within_s)
        except SlurmError as error:
            _log.info("slurm_job_not_commented", job_id=job_id, error=str(error))
            return False
        return True

    async def update(
        self,
        job_id: int,
        request: JobRequest,
        names: Set[str],
        excluded: tuple[str, ...] | None,
        marks: Mapping[str, str] = MappingProxyType({}),
    ) -> Updated:
        """Change a pending job.

        A change of its partition or account is answered with EAGAIN (11) now and then, and nothing is changed (both
        24.11.5 and 26.05.5): asked again it is taken. The numbers of `CapacityError` are such "not now" answers.
        """
        try:
            async with timed("update", self._clock, self._observe):
                await self._client.update_job(job_id, describe_changes(request, names, excluded, marks), **_SOON)
        except CapacityError as error:
            return Updated(None, str(error))
        except SlurmError as error:
            # "Unspecified error" (-1) is also what a request is answered that was carried out.
            if isinstance(error, RefusedError | NotFoundError) and (error.slurm_errno or -1) > 0:
                return Updated(False, str(error))
            return Updated(None, str(error))
        return Updated(True)

    async def follow(self, job_id: int, excluded: tuple[str, ...]) -> FollowAnswered:
        """Replace the excluded nodes; an empty tuple takes them all away."""
        try:
            async with timed("update", self._clock, self._observe):
                await self._client.update_job(job_id, JobDescription(excluded_nodes=excluded), **_SOON)
        except SlurmError as error:
            _log.info("slurm_job_not_updated", job_id=job_id, error=str(error))
            return FollowAnswered(job_id, None)
        return FollowAnswered(job_id, excluded)

    async def shrink(self, job_id: int, kept: tuple[str, ...]) -> ShrinkAnswered:
        """Name the nodes that are kept as required ones: the job has those alone afterwards (24.11, 26.05).

        A site forbids it with `SchedulerParameters=disable_job_shrink` (2036). The node of a batch script cannot go
        (2018).
        """
        try:
            async with timed("update", self._clock, self._observe):
                await self._client.update_job(job_id, JobDescription(required_nodes=kept), **_SOON)
        except SlurmError as error:
            _log.info("slurm_job_not_shrunk", job_id=job_id, error=str(error))
            if isinstance(error, UnsupportedError) or error.slurm_errno in _FORBIDDEN:
                return ShrinkAnswered(job_id, False, str(error), Unshrinkable.SITE)
            if isinstance(error, RefusedError | NotFoundError) and (error.slurm_errno or -1) > 0:
                return ShrinkAnswered(job_id, False, str(error))
            return ShrinkAnswered(job_id, None, str(error))
        return ShrinkAnswered(job_id, True)

    async def _cancel(self, job_ids: Sequence[int]) -> Sequence[CancelStatus]:
        async with timed("cancel", self._clock, self._observe):
            return await self._client.cancel(job_ids, **_SOON)

    async def _finish(self, signal: str, job_ids: Sequence[int]) -> Sequence[CancelStatus]:
        async with timed("finish", self._clock, self._observe):
            return await self._client.cancel(job_ids, signal=signal, flags=["BATCH_JOB"], **_SOON)


def _failed(order: JobOrder, error: SlurmError) -> SubmitRefused | SubmitUnknown:
    """Interpret a failed submission. Any error that is not surely a rejection may have created the job."""
    attempt, text, number = order.mark.attempt, str(error), error.slurm_errno or 0
    match error:
        case CapacityError():
            return SubmitRefused(attempt, False, text, number, queue=order.immediate)
        case UnsupportedError():
            queue = order.immediate and order.mode is not Mode.EXTERNAL
            return SubmitRefused(attempt, False, text, number, queue=queue)
        case RefusedError():
            # Some rejections of an allocation concern only the present (2038 for a begin time, 2014 for nodes that may
            # return), and their numbers do not show which. Only the rejection of a submission is final, and only one
            # that Slurm gave a reason for: without a number it may be that of a proxy (403, 429).
            spoken = isinstance(error, InvalidRequestError) or (number > 0 and number != _WRITING_TO_FILE)
            return SubmitRefused(attempt, spoken and not order.immediate, text, number, queue=order.immediate)
        case ConnectError() | AuthenticationError():
            return SubmitRefused(attempt, False, text, number)
        case ControllerUnavailableError(surely_not_done=True):
            return SubmitRefused(attempt, False, text, number)
        case _:
            return SubmitUnknown(attempt, text)


def _cancelled(job_id: int, statuses: Sequence[CancelStatus]) -> CancelAnswered:
    for status in statuses:
        if status.job_id == job_id and status.code:
            return CancelAnswered(job_id, job_ended=status.code in {_NO_SUCH_JOB, _ALREADY_DONE}, text=status.message)
    return CancelAnswered(job_id, job_ended=False)


def _lives(job: JobView) -> bool:
    """Return whether the job is neither over nor taken from its workload."""
    return isinstance(observe(job), Waiting | Starting | Running | Ending)


if TYPE_CHECKING:

    def _implements(jobs: SlurmrestdJobs) -> SlurmJobs:
        return jobs
