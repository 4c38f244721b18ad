"""Wake Pods that have a node a few at a time, so that a flood in one namespace delays others less.

To wake a Pod is to write its grant on it and to remove its gate, so that kube-scheduler tries it.
"""

from __future__ import annotations

import math
import statistics
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from extender.domain import commands as c
from extender.domain.ports import Clock
from extender.runtime.controller import Controller, Requeue
from extender.runtime.topics import PodFiltered

UNTRIED = 32
"""Pods that may be woken at a time and not be tried by kube-scheduler yet; the namespaces that wake some share them.

kube-scheduler takes Pods one after the other, whosever they are: each of these delays a Pod of another namespace by one
attempt, 3 ms on a quiet machine and 20 ms on a busy one. Without idle CPUs it takes a quarter of a second until a woken
Pod is tried: with 8 or 16, bursts of one namespace were up to a fifth slower there, and with 32 no slower.
"""

LEAST_UNTRIED = 8
"""The share of a namespace, however many there are."""

UNTRIED_S = 1.0
"""After so many seconds a woken Pod does not count any more: filters of kube-scheduler itself may reject it first."""

LATE = 3
"""It counts for so many times the time after which kube-scheduler tried the last Pods, if that is longer.

With one second alone, a kube-scheduler that was busy for longer got a second's Pods in each second, and its queue grew.
"""

MOST_UNTRIED_S = 15.0
"""But for no more seconds than these, also where kube-scheduler tries no Pod at all."""

TIMES_KEPT = 16
"""Pods of which this time is kept; the median counts."""

LATE_KEPT = 1024
"""Pods that do not count any more, and may still be tried: the time of these is one of the long ones."""


@dataclass(frozen=True, slots=True)
class Woken:
    """A Pod that kube-scheduler has not tried since it was woken at `at`.

    `gated`: it had a gate. One without may be in kube-scheduler's back-off, which says nothing about the queue.
    """

    at: float
    gated: bool


@dataclass(slots=True)
class Wakes:
    """The Pods of a namespace that are woken or wait for it, by UID, the oldest first."""

    held: dict[str, tuple[str, c.WakePod]] = field(default_factory=dict)
    """With the key of the workload."""

    untried: dict[str, Woken] = field(default_factory=dict)
    last: str = ""
    """The workload of the Pod that was woken last."""

    at: float = -math.inf
    """When it was."""


class WakePacing:
    """Wake the Pods of a namespace a few at a time, as kube-scheduler tries them, so that its queue stays short.

    A gang is woken as a whole: none of its members is bound before all were tried.

    `may_wake` returns whether a Pod that was held may still have its node: what came in between may keep the node.
    `is_gated` returns whether a Pod has a gate. `wake` executes a command. What is held is at most one command for each
    Pod that Slurm has given a node.
    """

    def __init__(
        self,
        clock: Clock,
        may_wake: Callable[[str, c.WakePod], bool],
        is_gated: Callable[[str], bool],
        wake: Callable[[str, c.WakePod], None],
    ) -> None:
        self._clock = clock
        self._may_wake = may_wake
        self._is_gated = is_gated
        self._wake = wake
        self._of: dict[str, Wakes] = {}
        """By namespace, until nothing is held or untried and none was woken for `UNTRIED_S`."""

        self._late: OrderedDict[str, float] = OrderedDict()
        """When each Pod was woken that does not count any more and was not tried, by UID."""

        self._times: deque[float] = deque(maxlen=TIMES_KEPT)
        """Seconds after which kube-scheduler tried the last Pods. It has one queue for all namespaces."""

        self._tried_at = -math.inf
        self._expiry = Controller("held wake-ups", self._expire, keep_early=True)

    async def run(self) -> None:
        """Release what kube-scheduler does not try, until cancelled."""
        await self._expiry.run()

    def add(self, key: str, command: c.WakePod) -> None:
        """Wake a Pod now, or when it is its turn."""
        namespace, uid = command.member.namespace, command.member.uid
        wakes = self._of.setdefault(namespace, Wakes())
        if uid in wakes.untried or (not wakes.held and self._has_turn(key, wakes)):
            self._wake_now(key, command, wakes)
        else:
            wakes.held[uid] = (key, command)
        self._expiry.add(namespace, after=UNTRIED_S)

    def tried(self, event: PodFiltered) -> None:
        """Wake the next Pod of this one's namespace."""
        now = self._tried_at = self._clock.now()
        wakes = self._of.get(event.namespace)
        woken = None if wakes is None else wakes.untried.pop(event.uid, None)
        late = self._late.pop(event.uid, None)
        if woken is not None and woken.gated:
            self._times.append(now - woken.at)
        elif late is not None:
            self._times.append(now - late)
        if wakes is not None and woken is not None:
            self._release(event.namespace, wakes)

    def removed(self, namespace: str, uid: str) -> None:
        """Give the place of a Pod that does not exist any more to the next one."""
        self._late.pop(uid, None)
        wakes = self._of.get(namespace)
        if wakes is not None:
            wakes.held.pop(uid, None)
            if wakes.untried.pop(uid, None) is not None:
                self._release(namespace, wakes)

    async def _expire(self, namespace: str) -> Requeue | None:
        wakes, now = self._of.get(namespace), self._clock.now()
        if wakes is None:
            return None
        for uid, woken in list(wakes.untried.items()):
            if now >= woken.at + self._counted_s(woken):
                del wakes.untried[uid]
                self._note_late(uid, woken)
        self._release(namespace, wakes)
        if wakes.held or wakes.untried or now < wakes.at + UNTRIED_S:
            return Requeue(UNTRIED_S)
        del self._of[namespace]
        if not self._of:
            self._late.clear()
            self._times.clear()
        for other, waiting in self._of.items():
            if waiting.held:
                self._expiry.add(other)  # its share has become larger
        return None

    def _counted_s(self, woken: Woken) -> float:
        """Return for how many seconds a woken Pod counts."""
        if not woken.gated:
            return UNTRIED_S
        if self._tried_at <= woken.at:
            return MOST_UNTRIED_S
        usual = statistics.median(self._times) if self._times else 0.0
        return min(max(UNTRIED_S, LATE * usual), MOST_UNTRIED_S)

    def _note_late(self, uid: str, woken: Woken) -> None:
        if woken.gated:
            self._late[uid] = woken.at
            if len(self._late) > LATE_KEPT:
                self._late.popitem(last=False)

    def _has_turn(self, key: str, wakes: Wakes) -> bool:
        return len(wakes.untried) < max(UNTRIED // len(self._of), LEAST_UNTRIED) or wakes.last == key

    def _wake_now(self, key: str, command: c.WakePod, wakes: Wakes) -> None:
        uid, wakes.at, wakes.last = command.member.uid, self._clock.now(), key
        wakes.untried.pop(uid, None)  # it is the last in order
        self._late.pop(uid, None)
        wakes.untried[uid] = Woken(wakes.at, self._is_gated(uid))
        self._wake(key, command)

    def _release(self, namespace: str, wakes: Wakes) -> None:
        """Wake as many Pods as may be. Of many that may not be woken, the rest has its turn later."""
        for uid in list(islice(wakes.held, 2 * UNTRIED)):
            key, command = wakes.held[uid]
            if not self._has_turn(key, wakes):
                return
            del wakes.held[uid]
            if self._may_wake(key, command):
                self._wake_now(key, command, wakes)
        if wakes.held:
            self._expiry.add(namespace)
