"""Release allocations whose nodes kube-scheduler does not use within `limits.unclaimedAfter`.

It does not ask for a Pod at all whose nodes have all become infeasible, so no call of it ends such a grant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from extender.domain import events as e
from extender.domain.nodes.whereabouts import renamed
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Clock, PodCache
from extender.domain.verdict import ENDING_TEXT, REFUSED_TEXT, WAITING_TEXT
from extender.domain.views import NodeView
from extender.engine.engine import Engine

LOOK_EVERY = 1.0
"""Seconds between two looks at what is granted and not bound."""

UNUSABLE_AFTER = 10.0
"""Seconds for which a granted Node may be cordoned or not Ready, and not offered, before it counts as refused."""

_STILL_ASKED = (WAITING_TEXT, REFUSED_TEXT, ENDING_TEXT)
"""Said by `/filter` itself: a try that was under way when the grant came. Such a Pod comes back after its back-off."""


class UnclaimedGrantController:
    """Watches grants. `fresh` says whether Pods and Nodes are up to date just now: blind, nothing is given back.

    Nor where Kubernetes shows no Node at all, which says nothing about any of them.
    """

    def __init__(self, engine: Engine, cache: PodCache, clock: Clock, *, fresh: Callable[[], bool]) -> None:
        self._engine = engine
        self._cache = cache
        self._clock = clock
        self._fresh = fresh
        self._sees_since: float | None = None
        self._unusable: dict[str, float] = {}
        """Since when the granted Node of a unit has been unusable."""

        self._refused: dict[str, float] = {}
        """Since when kube-scheduler's last word on a unit's Pod has been a refusal after the grant."""

        self._before: dict[str, tuple[str, ...]] = {}
        """What it had said of the Pods of each unit when the grant was handed out."""

        engine.listeners.append(self._changed)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            self.look()

    def look(self) -> None:
        """Give back what has not been claimed for too long."""
        now = self._clock.now()
        if not (self._fresh() and self._engine.world.node_map.known):
            self._sees_since, self._unusable, self._refused = None, {}, {}
            return
        if self._sees_since is None:
            self._sees_since = now
        unusable: dict[str, float] = {}
        refused: dict[str, float] = {}
        for p in self._engine.units.in_state(State.GRANTED):
            if not p.wants or p.charged:
                continue
            node, why = self._problem(p)
            if why:
                unusable[p.key] = self._unusable.get(p.key, now)
                if now - max(unusable[p.key], p.offered_at or 0.0) > UNUSABLE_AFTER:
                    self._engine.handle(p.key, e.NodeRefused(node, why), "claims")
                    continue
            elif said := self._refusal(p):
                refused[p.key] = self._refused.get(p.key, now)
                if now - max(refused[p.key], p.offered_at or 0.0) > self._engine.options.timing.refused_by_scheduler:
                    self._engine.handle(p.key, e.NodeRefused(node, f"kube-scheduler says: {said}"), "claims")
                    continue
            waited = now - max(p.offered_at, self._sees_since) if p.offered_at is not None else 0.0
            if waited > self._engine.options.timing.unclaimed:
                text = f"kube-scheduler has not offered it for {waited:.0f} s."
                self._engine.handle(p.key, e.NodeRefused(node, text), "claims")
        self._unusable, self._refused = unusable, refused

    def _changed(self, before: Placeholder, after: Placeholder) -> None:
        if after.state is State.GRANTED and after.cleared:
            if not before.cleared:
                self._before[after.key] = self._said(after)
        else:
            self._before.pop(after.key, None)

    def _said(self, p: Placeholder) -> tuple[str, ...]:
        pods = (self._cache.get(ref.uid) for ref in p.refs)
        return tuple(pod.unschedulable for pod in pods if pod is not None)

    def _refusal(self, p: Placeholder) -> str:
        """What kube-scheduler has said since the grant was handed out; "": nothing yet.

        With no feasible node left it does not call the extender at all (`schedule_one.go`, findNodesThatFitPod), but
        writes why on the Pod.
        """
        before = self._before.get(p.key)
        said = self._said(p)
        if before is None or said == before:
            return ""
        return next((text for text in said if text and not any(ours in text for ours in _STILL_ASKED)), "")

    def _problem(self, p: Placeholder) -> tuple[str, str]:
        """A granted node, and why kube-scheduler will hardly offer it ("": nothing is known against it)."""
        nodes = self._engine.world.nodes
        for _, name in p.allocation:
            if why := _unusable(nodes.get(name)) or renamed(p, name, self._engine.world.node_map):
                return name, why
        return p.allocation[0][1], ""


def _unusable(node: NodeView | None) -> str:
    if node is None:
        return "the Node is not there any more."
    if node.unschedulable:
        return "the Node is cordoned."
    return "" if node.ready else "the Node is not Ready."
