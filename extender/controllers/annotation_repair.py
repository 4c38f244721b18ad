"""Restore annotations of the extender that somebody edited, and strike out a cancellation that was undone.

A restart begins with what stands there: which job a running Pod has, and what a person said.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import structlog

from extender.domain.events import MemberRef
from extender.domain.fair_queue import in_turns
from extender.domain.jobs.cancelled import decode_cancelled
from extender.domain.jobs.devices import written_devices
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Announcement, Announcer, Clock, PodCache, Pods
from extender.domain.wellknown import (
    ALLOCATION_PROOF,
    CANCELLED,
    DEVICES,
    GPUS,
    JOB_ID_LABEL,
    POD_SLURM_NODE,
    POD_UID,
    Reason,
)
from extender.engine.cooperative_yield import CooperativeYield
from extender.engine.engine import Engine

_log = structlog.get_logger(__name__)

LOOK_EVERY = 5.0
"""Seconds between two looks."""

STEP = 0.1
"""Seconds between two writes: with a new key all Pods on nodes get a new proof."""

LATER = frozenset({POD_UID, POD_SLURM_NODE, DEVICES, GPUS})
"""Keys that are not on every Pod that has a job: their absence is nobody's doing."""

RETRY = 30.0
"""Seconds before a Pod is written to again: somebody may undo it each time."""


LONGEST_SHOWN = 100
"""Characters of what somebody wrote into an annotation that a line of the log shows."""

HAVE_JOBS = (State.WAITING, State.GRANTED, State.BOUND)


class AnnotationRepairController:
    """Compares the Pods of every unit that has a job with what the extender wrote."""

    def __init__(self, engine: Engine, pods: Pods, cache: PodCache, announcer: Announcer, clock: Clock) -> None:
        self._engine = engine
        self._claims = engine.options.claims
        self._pods = pods
        self._cache = cache
        self._announcer = announcer
        self._clock = clock
        self._not_before: dict[str, float] = {}
        self.drift: Counter[str] = Counter()
        """Of what was written on Pods and says something else now: `found`, and `repaired`."""

    async def run(self) -> None:
        """Look and write, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            now = self._clock.now()
            self._not_before = {uid: at for uid, at in self._not_before.items() if at > now}
            turns = CooperativeYield()
            have_jobs = [p.key for p in self._engine.units.in_state(*HAVE_JOBS)]
            for key in in_turns(have_jobs, self._engine.units.namespace_of):
                await turns.maybe_yield()
                p = self._engine.units.get(key)
                for ref, wanted, drifted in self._wrong(p) if p is not None and p.state in HAVE_JOBS else ():
                    if ref.uid not in self._not_before:
                        self.drift["found"] += drifted
                        self._not_before[ref.uid] = self._clock.now() + RETRY
                        if await self._pods.annotate(ref, wanted) and drifted:
                            self.drift["repaired"] += 1
                        await asyncio.sleep(STEP)

    def _wrong(self, p: Placeholder) -> Iterator[tuple[MemberRef, dict[str, str], bool]]:
        """What has to be written, on which Pod, and whether it said something else."""
        for member in p.members:
            pod = self._cache.get(member.ref.uid)
            if pod is None or member.end or pod.deleted_at is not None:
                continue
            if p.cancelled is None and decode_cancelled(pod.annotations.get(CANCELLED, ""), pod.uid) is not None:
                yield member.ref, {CANCELLED: ""}, False  # the Pod asked for something else since then, and has its job
            if p.state is not State.BOUND or not pod.node_name or p.node_of(pod.uid) != pod.node_name:
                continue
            wanted = self._claims.written(p.job_id, pod.node_name, pod.uid, p.slurm_node_of(pod.uid))
            wanted |= written_devices(p.devices_of(pod.uid))
            wrong = {key: pod.annotations.get(key, "") for key in wanted if pod.annotations.get(key) != wanted[key]}
            # A proof by an older key, or by a lost one, is made anew without a word.
            drifted = bool(wrong.keys() - LATER - {ALLOCATION_PROOF}) or any(wrong[key] for key in wrong.keys() & LATER)
            if drifted:
                was = {key: text[:LONGEST_SHOWN] for key, text in wrong.items()}
                _log.warning("status_annotations_repaired", pod=pod.full_name, uid=pod.uid, was=was, job_id=p.job_id)
                keys = ", ".join(wrong)
                text = f"{keys} did not name this Pod's Slurm job {p.job_id} on {pod.node_name} and is written again."
                said = Announcement("Pod", pod.namespace, pod.name, pod.uid, Reason.CLAIM_IGNORED, text, warning=True)
                self._announcer.announce(said)
            if wrong or pod.labels.get(JOB_ID_LABEL) != str(p.job_id):
                yield member.ref, wanted, drifted
