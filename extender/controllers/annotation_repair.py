"""Restore annotations of the extender that were edited, and remove a cancellation that was undone.

A restart depends on these annotations: which job a running Pod has, and what an administrator decided.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import structlog

from extender.domain.events import MemberRef
from extender.domain.jobs.cancelled import recorded_cancel
from extender.domain.placeholder import Placeholder, State
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.pods.member_annotations import allocation_annotations
from extender.domain.ports import Announcement, Announcer, Clock, PodCache, Pods
from extender.domain.views import PodView
from extender.domain.wellknown import (
    ALLOCATION_PROOF,
    CANCELLED,
    DEVICES,
    GANG_ANNOTATIONS,
    GPUS,
    JOB_ID_LABEL,
    POD_SLURM_NODE,
    POD_UID,
    Reason,
)
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Requeue
from extender.runtime.topics import PlaceholderChanged, PlaceholderForgotten, PodChanged

_log = structlog.get_logger(__name__)

SETTLED_AFTER = 5.0
"""Seconds between a change of a Pod or of its job and the comparison: most writes are seen by then."""

STEP = 0.1
"""Seconds between two writes: with a new key all Pods on nodes get a new proof."""

LATER = frozenset({POD_UID, POD_SLURM_NODE, DEVICES, GPUS, *GANG_ANNOTATIONS})
"""Keys that are not on every Pod that has a job: their absence is not an edit."""

RETRY = 30.0
"""Seconds before a Pod is written to again: another writer may undo the repair each time."""


LONGEST_SHOWN = 100
"""Characters of an edited annotation that a line of the log shows."""

HAVE_JOBS = (State.WAITING, State.GRANTED, State.BOUND)


class AnnotationRepairController:
    """Compare the Pods of every workload that has a job with what the extender wrote. Keys are those of workloads."""

    def __init__(
        self,
        engine: Engine,
        pods: Pods,
        cache: PodCache,
        announcer: Announcer,
        clock: Clock,
        *,
        allocation_records: AllocationRecords,
    ) -> None:
        self._engine = engine
        self._allocation_records = allocation_records
        self._pods = pods
        self._cache = cache
        self._announcer = announcer
        self._clock = clock
        self._not_before: dict[str, float] = {}
        self.drift: Counter[str] = Counter()
        """Of what was written on Pods and says something else now: `found`, and `repaired`."""

        self._controller = Controller(
            "annotations", self._reconcile, flow_of=engine.placeholders.namespace_of, keep_early=True
        )

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Compare the annotations of a workload that has a job."""
        if event.after.state in HAVE_JOBS:
            self._controller.add(event.after.key, after=SETTLED_AFTER)

    def pod_changed(self, event: PodChanged) -> None:
        """Compare the annotations of a Pod that changed."""
        old, new = event.old, event.new
        if new is None or (old is not None and _compared(old) == _compared(new)):
            return
        if (key := self._engine.placeholders.workload_of_pod(new.uid)) is not None:
            self._controller.add(key, after=SETTLED_AFTER)

    def forgotten(self, event: PlaceholderForgotten) -> None:
        """Forget when the workload may be written to again."""
        self._not_before.pop(event.key, None)

    async def run(self) -> None:
        """Compare and write, until cancelled."""
        await self._controller.run()

    async def _reconcile(self, key: str) -> Requeue | None:
        p = self._engine.placeholders.get(key)
        if p is None or p.state not in HAVE_JOBS:
            return None
        if (left := self._not_before.pop(key, 0.0) - self._clock.now()) > 0.0:
            self._not_before[key] = self._clock.now() + left
            return Requeue(left)
        again: Requeue | None = None
        for ref, wanted, drifted in list(self._wrong(p)):
            self.drift["found"] += drifted
            again = Requeue(RETRY)
            if await self._pods.annotate(ref, wanted) and drifted:
                self.drift["repaired"] += 1
            await asyncio.sleep(STEP)
        if again is not None:
            self._not_before[key] = self._clock.now() + RETRY
        return again

    def _wrong(self, p: Placeholder) -> Iterator[tuple[MemberRef, dict[str, str], bool]]:
        """Yield the Pods that need a write, the annotations, and whether an annotation had another value."""
        for member in p.members:
            pod = self._cache.get(member.ref.uid)
            if pod is None or member.end or pod.deleted_at is not None:
                continue
            if p.cancelled is None and recorded_cancel(pod) is not None:
                yield member.ref, {CANCELLED: ""}, False  # the Pod asked for something else since then, and has its job
            if p.state is not State.BOUND or not pod.node_name or p.node_of(pod.uid) != pod.node_name:
                continue
            wanted = allocation_annotations(p, pod.uid, pod.node_name, self._allocation_records, pod.annotations)
            wrong = {key: pod.annotations.get(key, "") for key in wanted if pod.annotations.get(key) != wanted[key]}
            # A proof by an older key, or by a lost one, is replaced without a log line.
            drifted = bool(wrong.keys() - LATER - {ALLOCATION_PROOF}) or any(wrong[key] for key in wrong.keys() & LATER)
            if drifted:
                was = {key: text[:LONGEST_SHOWN] for key, text in wrong.items()}
                _log.warning("status_annotations_repaired", pod=pod.full_name, uid=pod.uid, was=was, job_id=p.job_id)
                keys = ", ".join(wrong)
                text = f"{keys} did not name this Pod's Slurm job {p.job_id} on {pod.node_name} and is written again."
                announcement = Announcement(
                    "Pod", pod.namespace, pod.name, pod.uid, Reason.STATUS_ANNOTATIONS_IGNORED, text, warning=True
                )
                self._announcer.announce(announcement)
            if wrong or pod.labels.get(JOB_ID_LABEL) != str(p.job_id):
                yield member.ref, wanted, drifted


def _compared(pod: PodView) -> tuple[object, ...]:
    return pod.annotations, pod.labels.get(JOB_ID_LABEL), pod.node_name
