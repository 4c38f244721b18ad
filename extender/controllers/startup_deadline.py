"""Report Pods that hold an allocation and do not start, and evict them where the site asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from extender.domain.events import MemberRef
from extender.domain.placeholder import State
from extender.domain.policy.site import TranslationPolicy
from extender.domain.ports import Announcement, Announcer, Clock, PodCache, PodReads, Pods, PortError
from extender.domain.views import PodView
from extender.domain.wellknown import CONTAINERS_STARTED_CONDITION, Reason
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Requeue
from extender.runtime.topics import PlaceholderChanged, PodChanged, PodsAdopted

_log = structlog.get_logger(__name__)

CHECK_EVERY = 5.0
"""Seconds between two checks of a Pod that has not started."""

STEP = 0.1
"""Seconds between two writes."""

RETRY = 60.0
"""Seconds before the same Pod is written to or evicted again."""

EVICTED = Reason.CONTAINERS_NOT_STARTED.value
"""Reason of the condition DisruptionTarget."""


@dataclass(frozen=True, slots=True)
class _Idle:
    """A Pod that does not start. `started_waiting_at`: since when, by Kubernetes' clock; `since`: by the extender's."""

    started_waiting_at: float
    since: float


@dataclass(frozen=True, slots=True)
class StartLimits:
    """`limit_s` of Pods of which no rule says another; `None`: none. `evict`: give their nodes back."""

    limit_s: float | None = None
    evict: bool = False


class StartupDeadlineController:
    """Check Pods of workloads that are bound. Keys are UIDs. `clock` keeps the API server's time, as Pods do.

    That time is read once of each Pod, and only of those that were there at the start. What comes later is timed from
    the look that finds it, by a clock that never steps: instants on Pods are of whatever API server wrote them, or of
    kubelets, whose clocks differ.
    """

    def __init__(
        self,
        engine: Engine,
        pods: Pods,
        reads: PodReads,
        *,
        cache: PodCache,
        announcer: Announcer,
        clock: Clock,
        limits: StartLimits,
        policy: Callable[[], TranslationPolicy | None],
        namespace_labels: Callable[[str], Mapping[str, str] | None],
        fresh: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._pods = pods
        self._reads = reads
        self._cache = cache
        self._announcer = announcer
        self._clock = clock
        self._limits = limits
        self._policy = policy
        self._namespace_labels = namespace_labels
        self._fresh = fresh
        self._late: set[str] = set()
        self._starting: set[str] = set()
        self._not_before: dict[str, float] = {}
        self._idle: dict[str, _Idle] = {}
        self._controller = Controller("starts", self._reconcile, flow_of=self._namespace_of, keep_early=True)

    def by_state(self) -> Mapping[str, int]:
        """Count the Pods that have a node and have not started: those with time left, and those that are late."""
        return {"in_time": len(self._starting), "overdue": len(self._late)}

    def pod_changed(self, event: PodChanged) -> None:
        """Compare a placed Pod with its deadline, and forget one that is gone."""
        if event.new is None:
            if event.old is not None:
                self._forget(event.old.uid)
        elif self._concerns(event.new):
            self._controller.add(event.new.uid)

    def _concerns(self, pod: PodView) -> bool:
        """Return whether a Pod that changed has its node, or had it before a restored etcd."""
        placed = bool(pod.node_name) or pod.uid in self._late or pod.uid in self._starting
        return placed and self._engine.placeholders.workload_of_pod(pod.uid) is not None

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Compare the Pods of a workload that was just bound with their deadline."""
        if event.after.state is State.BOUND and event.before.state is not State.BOUND:
            for ref in event.after.refs:
                self._controller.add(ref.uid)

    def _namespace_of(self, uid: str) -> str:
        pod = self._cache.get(uid)
        return "" if pod is None else pod.namespace

    def _forget(self, uid: str) -> None:
        self._late.discard(uid)
        self._starting.discard(uid)
        self._not_before.pop(uid, None)
        self._idle.pop(uid, None)

    def adopted(self, _event: PodsAdopted) -> None:
        """Count the waiting time of adopted Pods from the time that they show, not from the start of this process."""
        now, wall = self._clock.now(), self._clock.wall()
        for p in self._engine.placeholders.all.values():
            for ref in p.refs:
                pod = self._cache.get(ref.uid)
                if pod is not None and pod.idle_since is not None:
                    self._idle[ref.uid] = _Idle(pod.idle_since, now - max(0.0, wall - pod.idle_since))
                if p.state is State.BOUND:
                    self._controller.add(ref.uid)

    async def run(self) -> None:
        """Check until cancelled."""
        await self._controller.run()

    async def _reconcile(self, uid: str) -> Requeue | None:
        """Report a Pod that is late, or that is not any more."""
        p, pod = self._engine.placeholders.by_pod(uid), self._cache.get(uid)
        bound = p is not None and p.state is State.BOUND
        if pod is None or not bound or not pod.node_name or pod.deleted_at is not None:
            self._forget(uid)
            return None
        if not self._fresh():
            return Requeue(CHECK_EVERY)
        limit, waited = self.limit_of(pod), self._waited(pod)
        still_late = uid in self._late and _pending(pod) and pod.idle_since is None  # an init container, again
        late = limit is not None and (waited > limit or still_late)
        (self._late.add if late else self._late.discard)(uid)
        (self._starting.add if not late and pod.idle_since is not None else self._starting.discard)(uid)
        if (late or pod.not_starting) and self._not_before.get(uid, 0.0) <= self._clock.now():
            self._not_before.pop(uid, None)
            await self._notify(MemberRef.of(pod), pod, waited if late else 0.0)
        return Requeue(CHECK_EVERY) if late or pod.idle_since is not None or pod.not_starting else None

    def limit_of(self, pod: PodView) -> float | None:
        """Return the seconds that this Pod may take to start; `None`: no limit, or not known."""
        policy = self._policy()
        if policy is None:
            return None
        labels: Mapping[str, str] | None = {}
        if policy.pods.needs_namespace_labels:
            labels = self._namespace_labels(pod.namespace)
        if labels is None:
            return None
        rule = policy.pods.rule_for(pod, labels)
        if rule is None or rule.startup_deadline_s is None:
            return self._limits.limit_s
        return rule.startup_deadline_s or None

    def _waited(self, pod: PodView) -> float:
        """Return for how many seconds the Pod has waited to start; 0.0 if it has started, or was seen just now."""
        if pod.idle_since is None:
            return 0.0
        idle = self._idle.get(pod.uid)
        if idle is None or idle.started_waiting_at != pod.idle_since:
            idle = self._idle[pod.uid] = _Idle(pod.idle_since, self._clock.now())
        return self._clock.now() - idle.since

    async def _notify(self, ref: MemberRef, pod: PodView, waited: float) -> None:
        late = ref.uid in self._late
        if late is not pod.not_starting:
            self._not_before[ref.uid] = self._clock.now() + RETRY
            text = _text(pod, waited) if late else "It has started, or may take longer now."
            reason = Reason.CONTAINERS_NOT_STARTED if late else "ContainersStarted"
            if not await self._pods.report(ref, CONTAINERS_STARTED_CONDITION, not late, reason, text):
                return
            p = self._engine.placeholders.by_pod(ref.uid)
            job_id = p.job_id if p is not None else None
            if late:
                _log.warning("containers_not_started", pod=pod.full_name, uid=ref.uid, job_id=job_id, cause=text)
                announcement = Announcement(
                    "Pod", ref.namespace, ref.name, ref.uid, Reason.CONTAINERS_NOT_STARTED, text, warning=True
                )
                self._announcer.announce(announcement)
            await asyncio.sleep(STEP)
        if late and self._limits.evict and self._waited(pod):
            self._not_before[ref.uid] = self._clock.now() + RETRY
            await self._evict(ref)
            await asyncio.sleep(STEP)

    async def _evict(self, ref: MemberRef) -> None:
        """Evict the Pod unless a read shows that it started or is being deleted."""
        try:
            pod = await self._reads.read(ref)
        except PortError as error:
            _log.info("pod_not_read", pod=ref.full_name, uid=ref.uid, error=str(error))
            return
        if pod is None or pod.deleted_at is not None or not self._waited(pod):
            return
        text = f"{_text(pod, self._waited(pod))} Its node is released."
        answer = await self._pods.end(ref, EVICTED, text, voluntary=True)
        fields = {"pod": ref.full_name, "uid": ref.uid, "cause": text}
        if answer.accepted:
            _log.warning("containers_not_started_evicted", **fields)
        else:
            _log.info("pod_not_evicted", **fields, error=answer.text)


def _pending(pod: PodView) -> bool:
    """Return whether some container has yet to start for the first time."""
    return pod.phase == "Pending"


def _text(pod: PodView, waited: float) -> str:
    held = f"The Pod has held its Node {pod.node_name} for {waited / 60:.0f} min"
    why = f" The kubelet reports for container {pod.held_up}." if pod.held_up else ""
    return f"{held}, and not all of its containers have started.{why}"
