"""Release allocations whose nodes kube-scheduler does not use within `limits.allocationOfferTimeout`.

It does not ask for a Pod at all whose nodes have all become infeasible, so no call of it ends such a grant.
"""

from __future__ import annotations

from collections.abc import Callable

from extender.domain import events as e
from extender.domain.nodes.member_nodes import renamed
from extender.domain.placeholder import Placeholder, State, Timing
from extender.domain.ports import Clock, PodCache
from extender.domain.states import GrantedState
from extender.domain.verdict import ENDING_TEXT, REFUSED_TEXT, WAITING_TEXT
from extender.domain.views import NodeView
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.topics import PlaceholderChanged

CHECK_EVERY = 1.0
"""Seconds between two checks of a workload that has a grant and is not bound."""

UNUSABLE_AFTER = 10.0
"""Seconds for which a granted Node may be cordoned or not Ready, and not offered, before it counts as refused."""

_FILTER_ANSWERS = (WAITING_TEXT, REFUSED_TEXT, ENDING_TEXT)
"""Said by `/filter` itself: a try that was under way when the grant came. Such a Pod comes back after its back-off."""


class UnboundAllocationController:
    """Watch grants. Keys are those of workloads. `fresh`: return whether the informers are up to date.

    Otherwise nothing is released; nor where Kubernetes shows no Node at all, which says nothing about any of them.
    """

    def __init__(
        self,
        engine: Engine,
        cache: PodCache,
        clock: Clock,
        *,
        timing: Timing,
        fresh: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._clock = clock
        self._fresh = fresh
        self._timing = timing
        self._sees_since: float | None = None
        self._unusable: dict[str, float] = {}
        """Since when the granted Node of a workload has been unusable."""

        self._refused: dict[str, float] = {}
        """Since when kube-scheduler's last message about a workload's Pod has been a rejection after the grant."""

        self._before: dict[str, tuple[str, ...]] = {}
        """What it had said of the Pods of each workload when the grant was handed out."""

        self._controller = Controller("unbound allocations", self._reconcile, resync=Resync(self._granted))

    async def run(self) -> None:
        """Check until cancelled."""
        await self._controller.run()

    def _granted(self) -> list[str]:
        return [p.key for p in self._engine.placeholders.in_state(State.GRANTED)]

    async def _reconcile(self, key: str) -> Requeue | None:
        p = self._engine.placeholders.get(key)
        if p is None or p.state is not State.GRANTED:
            return None
        now = self._clock.now()
        if not (self._fresh() and self._engine.snapshot.node_map.known):
            self._sees_since = None
            self._unusable.clear()
            self._refused.clear()
        elif p.wants and not p.job_occupied and (found := self._too_late(p, now)):
            node, why = found
            self._engine.handle(key, e.NodeRefused(node, why), "unbound allocation")
        return Requeue(CHECK_EVERY)

    def _too_late(self, p: Placeholder, now: float) -> tuple[str, str] | None:
        """Return the node that is to be released, and why; `None`: kube-scheduler may use it still."""
        if self._sees_since is None:
            self._sees_since = now
        if not p.allocation:  # members of a gang have other slots now, and the job is being read
            return None
        offered = p.payload.offered_at if isinstance(p.payload, GrantedState) else None
        timing, offered_at = self._timing, offered or 0.0
        node, why = self._problem(p)
        refusal = "" if why or len(p.members) > 1 else self._refusal(p)  # of a gang, `GangBarrier` waits for longer
        if why:
            self._refused.pop(p.key, None)
            if now - max(self._unusable.setdefault(p.key, now), offered_at) > UNUSABLE_AFTER:
                return node, why
        elif refusal:
            self._unusable.pop(p.key, None)
            if now - max(self._refused.setdefault(p.key, now), offered_at) > timing.refused_by_scheduler:
                return node, f"kube-scheduler reports: {refusal}"
        else:
            self._unusable.pop(p.key, None)
            self._refused.pop(p.key, None)
        waited = now - max(offered, self._sees_since) if offered is not None else 0.0
        if waited > timing.not_offered:
            return node, f"kube-scheduler has not offered it for {waited:.0f} s."
        return None

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Check a granted workload after a while, and forget what was seen of any other."""
        before, after = event.before, event.after
        if after.state is State.GRANTED:
            self._controller.add(after.key, after=CHECK_EVERY)
        else:
            self._unusable.pop(after.key, None)
            self._refused.pop(after.key, None)
        if after.cleared:
            if not before.cleared:
                self._before[after.key] = self._unschedulable(after)
        else:
            self._before.pop(after.key, None)

    def _unschedulable(self, p: Placeholder) -> tuple[str, ...]:
        pods = (self._cache.get(ref.uid) for ref in p.refs)
        return tuple(pod.unschedulable for pod in pods if pod is not None)

    def _refusal(self, p: Placeholder) -> str:
        """Return kube-scheduler's message since the grant was handed out; "": nothing yet.

        With no feasible node left it does not call the extender at all (`schedule_one.go`, findNodesThatFitPod), but
        writes the reason on the Pod.
        """
        before = self._before.get(p.key)
        unschedulable = self._unschedulable(p)
        if before is None or unschedulable == before:
            return ""
        return next((text for text in unschedulable if text and not any(own in text for own in _FILTER_ANSWERS)), "")

    def _problem(self, p: Placeholder) -> tuple[str, str]:
        """Return a granted node, and why kube-scheduler will hardly offer it ("": nothing is known against it)."""
        nodes = self._engine.snapshot.nodes
        for _, name in p.allocation:
            if why := _unusable(nodes.get(name)) or renamed(p, name, self._engine.snapshot.node_map):
                return name, why
        return p.allocation[0][1], ""


def _unusable(node: NodeView | None) -> str:
    if node is None:
        return "the Node was deleted."
    if node.unschedulable:
        return "the Node is cordoned."
    return "" if node.ready else "the Node is not Ready."
