"""Know which checkpoints cover which Pods, and have the mark of a running job name one that covers later members.

No member of a gang is bound before the checkpoint in the mark of its job covers it: so the checkpoint decides for every
Pod that runs on a job whether it was deleted (`domain.jobs.checkpoint`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from weakref import WeakValueDictionary

import structlog

from extender.domain.jobs.checkpoint import Checkpoint
from extender.domain.jobs.identity import decode_mark, with_members
from extender.domain.jobs.job import JobRequest, JobView
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import PortError
from extender.engine.engine_context import EnginePorts, EngineState
from extender.runtime.controller import Controller
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import MembersCovered, PlaceholderChanged, PlaceholderForgotten

_log = structlog.get_logger(__name__)

WORKERS = 4
"""Marks that are renewed at a time."""


class SeenPods:
    """Remember for each workload which checkpoints cover its Pods: those whose write began after they were seen.

    `begun` returns how many writes have begun.
    """

    def __init__(self, events: EventBus, begun: Callable[[], int]) -> None:
        self._begun = begun
        self._seen: dict[str, tuple[frozenset[str], int]] = {}
        """By workload: the UIDs of its Pods, and how many writes had begun when the last of them was noted."""

        events.subscribe(PlaceholderChanged, self._changed)
        events.subscribe(PlaceholderForgotten, self._forget)

    def of(self, p: Placeholder) -> int:
        """Return how many writes had begun when the Pods of a workload had been seen."""
        uids = _uids(p)
        known, seen = self._seen.get(p.key, (frozenset[str](), 0))
        if not uids <= known:
            seen = self._begun()
            self._seen[p.key] = uids, seen
        return seen

    def _changed(self, event: PlaceholderChanged) -> None:
        if event.after.state is State.SUBMITTING:
            self.of(event.after)

    def _forget(self, event: PlaceholderForgotten) -> None:
        self._seen.pop(event.key, None)


class PodCoverage:
    """Give a submission its checkpoint, and renew that in the mark of a job for members that came later."""

    def __init__(self, state: EngineState, ports: EnginePorts) -> None:
        self._state = state
        self._ports = ports
        self._seen_pods = SeenPods(ports.events, lambda: ports.checkpoints.begun)
        self._covered: dict[str, tuple[int, frozenset[str]]] = {}
        """By workload: its job, and the UIDs of the members that the mark of the job covers."""

        self._marks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._controller = Controller("checkpoints of members", self._reconcile, workers=WORKERS, keep_early=True)
        ports.events.subscribe(PlaceholderForgotten, self._forget)

    async def run(self) -> None:
        """Renew marks until cancelled."""
        await self._controller.run()

    def editing(self, job_id: int) -> asyncio.Lock:
        """Return the lock under which the mark of a job is read and written."""
        return self._marks.setdefault(job_id, asyncio.Lock())

    async def checkpoint(self, p: Placeholder) -> Checkpoint | None:
        """Return a checkpoint that was written after these Pods were seen; `None`: there is none."""
        if len(self._ports.pods_of(p)) != len(p.refs):
            return None
        return await self._ports.checkpoints.write(self._seen_pods.of(p))

    def submitted(self, p: Placeholder, job_id: int) -> None:
        """Take note that a job was submitted for these members, with a checkpoint that covers them or with none."""
        if p.is_gang:
            self._covered[p.key] = job_id, _uids(p)

    def is_incomplete(self, p: Placeholder) -> bool:
        """Return whether a member of a gang waits for a node that the mark of its job does not cover."""
        job_id, covered = self._covered.get(p.key, (None, frozenset[str]()))
        covered = covered if job_id == p.job_id else frozenset()
        return p.is_gang and any(m.wanting and m.ref.uid not in covered for m in p.members)

    def renew(self, p: Placeholder) -> None:
        """Have the mark of its job cover every member; `MembersCovered` says when it does."""
        self._controller.add(p.key)

    async def _reconcile(self, key: str) -> None:
        p = self._state.placeholders.get(key)
        if p is None or p.job_id is None or not self.is_incomplete(p):
            return
        request = p.submitted_request or p.request
        if request is not None and await self._cover(p, p.job_id, request):
            self._covered[key] = p.job_id, _uids(p)
            self._ports.events.publish(MembersCovered(key))

    async def _cover(self, p: Placeholder, job_id: int, request: JobRequest) -> bool:
        """Have the mark of a job name a checkpoint that covers these members. False: try again later.

        Members that run are covered by the one before it, those that wait were seen.
        """
        checkpoint = await self._ports.checkpoints.write(self._seen_pods.of(p))
        async with self.editing(job_id):
            try:
                job = await self._ports.jobs.read(job_id)
                if job is None:
                    return False
                named = await self._renewed(_named(job), checkpoint)
            except PortError as error:
                _log.info("mark_not_renewed", job_id=job_id, workload=p.key, error=str(error))
                return False
            texts = {"admin_comment": job.admin_comment, "extra": job.extra}
            first = None if p.placed else _uids(p)
            renewed = {place: with_members(text, named, p.slots_used, first) for place, text in texts.items()}
            marks = {place: text for place, text in renewed.items() if text != texts[place]}
            if decode_mark(renewed["admin_comment"]) == decode_mark(job.admin_comment):
                return True
            answer = await self._ports.jobs.update(job_id, request, frozenset(), None, marks)
        _log.info(
            "mark_renewed", job_id=job_id, workload=p.key, checkpoint=str(named), done=answer.done, error=answer.text
        )
        return answer.done is True

    async def _renewed(self, old: Checkpoint | None, new: Checkpoint | None) -> Checkpoint | None:
        """Return what the mark is to name instead of `old`. Raises PortError.

        Where Kubernetes lacks `old`, etcd was restored, and `old` has to say so later. Where there is no new one, the
        deletion of the gang is not proven any more.
        """
        if old is None or old.members_may_join:
            return old
        if new is None:
            return replace(old, members_may_join=True)
        follows = new.writer == old.writer and new.number >= old.number
        return new if follows or await self._ports.checkpoints.has(old) else old

    def _forget(self, event: PlaceholderForgotten) -> None:
        self._covered.pop(event.key, None)


def _uids(p: Placeholder) -> frozenset[str]:
    return frozenset(ref.uid for ref in p.refs)


def _named(job: JobView) -> Checkpoint | None:
    """Return the checkpoint that the mark of a job names where no owner of a job can write it."""
    mark = decode_mark(job.admin_comment)
    return None if mark is None else mark.checkpoint
