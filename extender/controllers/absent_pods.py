"""Hold back the end of jobs whose Pods are absent from a list without a reported deletion, until that is explained.

A watch that reports a deletion states a fact. A Pod that is only absent from a list may have been deleted while no
watch was open, or a restore of etcd took it back. The checkpoint in the mark of its job distinguishes the two
(`domain.jobs.checkpoint`), as at a start (`controllers.orphans`). Where it cannot, the mass-deletion guard decides.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from extender.controllers.pod_absence_classifier import TEXTS, PodAbsenceClassifier
from extender.domain.events import MemberRef
from extender.domain.job_outcomes.slurm_states import ENDED_STATES
from extender.domain.jobs.checkpoint import Checkpoint, PodAbsence
from extender.domain.jobs.identity import decode_mark
from extender.domain.placeholder import Placeholder, State
from extender.domain.placeholders import Placeholders
from extender.domain.ports import Clock, PodReads, PortError, SlurmJobs
from extender.domain.views import PodView
from extender.engine.mass_deletion_guard import RUNBOOK_FOR_MISSING_PODS, MassDeletionGuard

_log = structlog.get_logger(__name__)

HOW_TO_RELEASE = (
    "many Pods are missing in a list of the API server, and no deletion was seen: etcd may have been restored. Their "
    "jobs are ended after orphans.massGracePeriod. To end the jobs now, confirm as in "
    f"{RUNBOOK_FOR_MISSING_PODS}."
)

AT_ONCE = 16
"""Jobs that are read at a time."""

_UNDECIDED = frozenset({State.SUBMITTING, State.UNSURE})
"""In these a workload may have a job that is not known."""


@dataclass(slots=True)
class _Missing:
    pod: PodView
    since: float
    explained: bool = False
    """Its absence needs no checkpoint: no process of it runs, or it has no job that could end."""

    was_read: bool = False
    """The job and the Pod were read: Slurm has the job, and the API server surely lacks the Pod."""

    held: bool = False
    """The log says that it is held back."""

    checkpoint: Checkpoint | None = None
    absence: PodAbsence | None = None


class AbsentPods:
    """Keep Pods whose absence is not yet accepted as a deletion."""

    def __init__(
        self,
        clock: Clock,
        mass_deletion_guard: MassDeletionGuard,
        placeholders: Placeholders,
        *,
        jobs: SlurmJobs,
        pods: PodReads,
        classifier: PodAbsenceClassifier,
    ) -> None:
        self._clock = clock
        self._mass_deletion_guard = mass_deletion_guard
        self._placeholders = placeholders
        self._jobs = jobs
        self._pods = pods
        self._classifier = classifier
        self._held: dict[str, _Missing] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def uids(self) -> tuple[str, ...]:
        """Return the UIDs of the Pods that are kept."""
        return tuple(self._held)

    def keep(self, pods: Iterable[PodView]) -> None:
        """Keep Pods that a complete list lacks."""
        now = self._clock.now()
        self._held.update({pod.uid: _Missing(pod, now) for pod in pods})

    def back(self, uid: str) -> PodView | None:
        """Return a Pod that is there again as it was last seen, if it was missing."""
        found = self._held.pop(uid, None)
        if found is not None and found.held and not any(one.held for one in self._held.values()):
            _log.warning("missing_pods_returned", why="no Pod is missing any more")
        return found.pod if found is not None else None

    async def classify(self) -> None:
        """Find out why the Pods are absent, as far as that is not known. Never raises."""
        unread = [one for one in self._held.values() if not (one.explained or one.was_read)]
        for first in range(0, len(unread), AT_ONCE):
            answered = await asyncio.gather(*map(self._read, unread[first : first + AT_ONCE]))
            if not all(answered):
                break  # the other side does not answer: the next try reads them
        await self._classifier.classify(one for one in self._held.values() if one.was_read)

    def due(self, *, confirmed: bool = False) -> list[PodView]:
        """Return and drop the Pods that count as gone now. `confirmed`: by an administrator."""
        missing, total = len(self._unmarked()), len(self._placeholders.jobs)
        waited = [one for one in self._held.values() if confirmed or self._has_waited(one, missing, total)]
        for one in waited:
            del self._held[one.pod.uid]
        if waited:
            why = "confirmed" if confirmed else "explained, or waited"
            _log.warning("missing_pods_gone", pods=[one.pod.full_name for one in waited], why=why)
        self._log_held(missing, total)
        return [one.pod for one in waited]

    @property
    def restore_suspected(self) -> str:
        """Return why Pods count as running although the API server lacks them, where a checkpoint says so; ""."""
        kept = Counter(one.absence for one in self._held.values() if one.held)
        return "; ".join(f"{kept[why]} missing Pods: {text}" for why, text in TEXTS.items() if kept[why])

    def suspected_nodes(self) -> set[str]:
        """Return the Nodes on which Pods may run that a restore took back."""
        return {one.pod.node_name for one in self._held.values() if one.held and one.absence is PodAbsence.RESTORED}

    async def _read(self, one: _Missing) -> bool:
        """Read the job and the Pod of one. False: one of them could not be read."""
        p = self._placeholders.by_pod(one.pod.uid)
        if one.pod.finished or p is None or (p.job_id is None and p.state not in _UNDECIDED):
            one.explained = True
            return True
        if p.job_id is None:
            return True
        try:
            job = await self._jobs.read(p.job_id)
            pod = await self._pods.read(MemberRef(one.pod.uid, one.pod.namespace, one.pod.name))
        except PortError as error:
            _log.info("absence_not_classified", pod=one.pod.full_name, uid=one.pod.uid, error=str(error))
            return False
        if pod is not None or not self._has_job(one, p):
            return True  # the list was older than the Pod, or the workload has another job by now
        if job is None or job.state in ENDED_STATES:
            one.explained = True
            return True
        mark = decode_mark(job.admin_comment)
        one.checkpoint = mark.checkpoint if mark is not None and mark.workload == p.key else None
        one.was_read = True
        return True

    def _has_job(self, one: _Missing, before: Placeholder) -> bool:
        p = self._placeholders.by_pod(one.pod.uid)
        return p is not None and p.job_id == before.job_id

    def _unmarked(self) -> set[str]:
        """Return the workloads whose absence no checkpoint explains: the guard counts these."""
        found = (
            self._placeholders.workload_of_pod(uid)
            for uid, one in self._held.items()
            if one.absence is PodAbsence.UNMARKED and not one.explained
        )
        return {key for key in found if key is not None}

    def _has_waited(self, one: _Missing, missing: int, total: int) -> bool:
        if one.explained or one.absence is PodAbsence.DELETED:
            return True
        verdict = self._mass_deletion_guard.judge(one.since, missing, total, one.absence or PodAbsence.UNREADABLE)
        return verdict.lasted and not self._mass_deletion_guard.dry_run

    def _log_held(self, missing: int, total: int) -> None:
        """Log once for each Pod that it is held back for long."""
        news: list[_Missing] = []
        seconds = 0.0
        for one in self._held.values():
            if one.absence is None or one.held:
                continue
            verdict = self._mass_deletion_guard.judge(one.since, missing, total, one.absence)
            if verdict.held:
                one.held, seconds = True, verdict.wait_s
                news.append(one)
        for why in dict.fromkeys(one.absence for one in news):
            pods = [one.pod.full_name for one in news if one.absence is why]
            what = HOW_TO_RELEASE if why is None else TEXTS.get(why, HOW_TO_RELEASE)
            _log.error("missing_pods", missing=len(pods), of=total, seconds=seconds, why=str(why), what=what, pods=pods)
