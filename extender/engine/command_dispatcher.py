"""Dispatch commands: into the queue for Slurm or for Kubernetes, held back, or announced as Events."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from extender.domain import commands as c
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Announcement, Announcer, Clock
from extender.domain.rules import RANKS, rank
from extender.domain.wellknown import Reason
from extender.engine.job_read_versions import JobReadVersions
from extender.runtime.controller import Controller, Requeue
from extender.runtime.timers import TICK
from extender.runtime.topics import PodFiltered

SLURM_UNREAD = "Slurm's nodes and partitions have not been read yet; the job is submitted as soon as they are."

UNTRIED = 32
"""Pods that may be woken at a time and not be tried by kube-scheduler yet; the namespaces that wake some share them.

kube-scheduler takes Pods one after the other, whosever they are: each of these delays a Pod of another namespace by one
attempt, 3 ms on a quiet machine and 20 ms on a busy one. Without idle CPUs it takes a quarter of a second until a woken
Pod is tried: with 8 or 16, bursts of one namespace were up to a fifth slower there, and with 32 no slower.
"""

LEAST_UNTRIED = 4
"""The share of a namespace, however many there are."""

UNTRIED_S = 1.0
"""After so many seconds a woken Pod does not count any more: filters of kube-scheduler itself may reject it first."""

LATE = 3
"""It counts for so many times the time that kube-scheduler took for the last Pods of the namespace, if that is longer.

With one second alone, a kube-scheduler that was busy for longer got a second's Pods in each second, and its queue grew.
"""

MOST_UNTRIED_S = 15.0
"""But for no more seconds than these: Pods that were woken for another job may be in kube-scheduler's back-off."""

TIMES_KEPT = 16
"""Pods of a namespace of which this time is kept; the median counts."""

Execute = Callable[[str, c.Command], Awaitable[None]]
"""Execute a command of a workload, by its key. Never raises for what the other side does."""

_Work = tuple[str, c.Command]


class PendingCommands(Protocol):
    """The commands that wait for their turn, to be read."""

    @property
    def waiting(self) -> Mapping[str, int]:
        """Return how many commands wait, by the side that they are for."""
        ...

    def busy(self) -> bool:
        """Return whether more commands wait for Slurm than can be under way."""
        ...


@dataclass(slots=True)
class Wakes:
    """The Pods of a namespace that are woken or wait for it, by UID."""

    held: dict[str, tuple[str, c.WakePod]] = field(default_factory=dict)
    """The oldest first, with the key of the workload."""

    untried: dict[str, float] = field(default_factory=dict)
    """When each Pod was woken that kube-scheduler has not tried yet."""

    last: str = ""
    """The workload of the Pod that was woken last."""

    at: float = -math.inf
    """When it was."""

    times: deque[float] = field(default_factory=lambda: deque(maxlen=TIMES_KEPT))
    """Seconds from waking a Pod until kube-scheduler tried it, of the last ones."""

    def counted_s(self) -> float:
        """Return for how many seconds a woken Pod counts."""
        usual = statistics.median(self.times) if self.times else 0.0
        return min(max(UNTRIED_S, LATE * usual), MOST_UNTRIED_S)


class WakePacing:
    """Wake the Pods of a namespace a few at a time, as kube-scheduler tries them, so that its queue stays short.

    A gang is woken as a whole: none of its members is bound before all were tried.

    `may_wake` returns whether a Pod that was held may still have its node: what came in between may keep the node.
    `wake` executes a command. What is held is at most one command for each Pod that Slurm has given a node.
    """

    def __init__(
        self, clock: Clock, may_wake: Callable[[str, c.WakePod], bool], wake: Callable[[str, c.WakePod], None]
    ) -> None:
        self._clock = clock
        self._may_wake = may_wake
        self._wake = wake
        self._of: dict[str, Wakes] = {}
        """By namespace, until nothing is held or untried and none was woken for `UNTRIED_S`."""

        self._expiry = Controller("held wake-ups", self._expire, keep_early=True)

    async def run(self) -> None:
        """Release what kube-scheduler does not try, until cancelled."""
        await self._expiry.run()

    def add(self, key: str, command: c.WakePod) -> None:
        """Wake a Pod now, or when it is its turn."""
        namespace, uid = command.member.namespace, command.member.uid
        wakes = self._of.setdefault(namespace, Wakes())
        wakes.untried.pop(uid, None)
        if not wakes.held and self._has_turn(key, wakes):
            self._wake_now(key, command, wakes)
        else:
            wakes.held[uid] = (key, command)
        self._expiry.add(namespace, after=UNTRIED_S)

    def tried(self, event: PodFiltered) -> None:
        """Wake the next Pod of this one's namespace."""
        wakes = self._of.get(event.namespace)
        if wakes is not None and (woken := wakes.untried.pop(event.uid, None)) is not None:
            wakes.times.append(self._clock.now() - woken)
            self._release(event.namespace, wakes)

    async def _expire(self, namespace: str) -> Requeue | None:
        wakes = self._of.get(namespace)
        if wakes is None:
            return None
        now, within = self._clock.now(), wakes.counted_s()
        for uid in [uid for uid, woken in wakes.untried.items() if now - woken >= within]:
            del wakes.untried[uid]
        self._release(namespace, wakes)
        if not wakes.held and not wakes.untried and now - wakes.at >= UNTRIED_S:
            del self._of[namespace]
            return None
        oldest = next(iter(wakes.untried.values()), wakes.at)
        return Requeue(max(oldest + (within if wakes.untried else UNTRIED_S) - now, TICK))

    def _has_turn(self, key: str, wakes: Wakes) -> bool:
        return len(wakes.untried) < self._share() or wakes.last == key

    def _share(self) -> int:
        return max(UNTRIED // len(self._of), LEAST_UNTRIED)

    def _wake_now(self, key: str, command: c.WakePod, wakes: Wakes) -> None:
        wakes.untried[command.member.uid] = wakes.at = self._clock.now()
        wakes.last = key
        self._wake(key, command)

    def _release(self, namespace: str, wakes: Wakes) -> None:
        """Wake as many Pods as may be. Of many that may not be woken, the rest has its turn later."""
        for uid in list(islice(wakes.held, 2 * UNTRIED)):
            key, command = wakes.held[uid]
            if not self._has_turn(key, wakes):
                return
            del wakes.held[uid]
            wakes.untried.pop(uid, None)
            if self._may_wake(key, command):
                self._wake_now(key, command, wakes)
        if wakes.held:
            self._expiry.add(namespace)


class CommandDispatcher:
    """`to_slurm` and `to_kubernetes` execute commands, `workers` of each at a time.

    Ends go before starts where both wait. Within a rank namespaces take turns, so that a namespace with a great many
    Pods delays no Pod of another one. The same command never runs twice at the same time.

    `may_wake`: see `WakePacing`. `nodes_known`: Slurm's nodes and partitions have been read, without which nothing can
    be submitted. `namespace_of` gives the namespace of a workload by its key: namespaces take turns. `explain` returns
    why a workload waits.
    """

    def __init__(
        self,
        to_slurm: Execute,
        to_kubernetes: Execute,
        readings: JobReadVersions,
        announcer: Announcer,
        *,
        clock: Clock,
        may_wake: Callable[[str, c.WakePod], bool],
        nodes_known: Callable[[], bool],
        namespace_of: Callable[[str], str],
        explain: Callable[[Placeholder], str],
        workers: int,
    ) -> None:
        def queue(name: str, execute: Execute) -> Controller[_Work]:
            async def reconcile(work: _Work) -> None:
                await execute(*work)

            return Controller(
                name,
                reconcile,
                workers=workers,
                ranks=RANKS,
                owner_of=lambda work: namespace_of(work[0]),
                rerun=False,
                keep_early=True,
            )

        self._slurm = queue("slurm", to_slurm)
        self._kubernetes = queue("kubernetes", to_kubernetes)
        self._wakes = WakePacing(clock, may_wake, self._put_for_kubernetes)
        self._job_reads = readings
        self._announcer = announcer
        self._nodes_known = nodes_known
        self._explain = explain
        self._workers = workers
        self._unsent: dict[str, c.SubmitJob] = {}
        """The submission of each workload that waits until Slurm's nodes are known."""

    @property
    def waiting(self) -> Mapping[str, int]:
        """Return how many commands wait, by the side that they are for."""
        return {queue.name: len(queue) for queue in (self._slurm, self._kubernetes)}

    def busy(self) -> bool:
        """Return whether more commands wait for Slurm than can be under way."""
        return len(self._slurm) > self._workers

    async def run(self) -> None:
        """Execute commands until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._slurm.run(), name="commands for Slurm")
            group.create_task(self._kubernetes.run(), name="commands for Kubernetes")
            group.create_task(self._wakes.run(), name="held wake-ups")

    def put(self, p: Placeholder, command: c.Command) -> None:
        """Queue a command that a step of this workload requests."""
        match command:
            case c.Announce():
                waits = command.reason is Reason.JOB_PENDING and p.state is State.WAITING
                self._announce(replace(command, text=self._explain(p) or command.text) if waits else command)
            case c.WakePod():
                self._wakes.add(p.key, command)
            case c.NoteCancelled() | c.EndPod():
                self._put_for_kubernetes(p.key, command)
            case c.SubmitJob() if not self._nodes_known():
                self._unsent[p.key] = command
                self._announce(c.Announce(p.refs, Reason.RETRYING, SLURM_UNREAD, True))
            case _:
                self.put_for_slurm(p.key, command)

    def tried(self, event: PodFiltered) -> None:
        """Note that kube-scheduler tries to place a Pod."""
        self._wakes.tried(event)

    def _put_for_kubernetes(self, key: str, command: c.Command) -> None:
        self._kubernetes.add((key, command), rank(command))

    def put_for_slurm(self, key: str, command: c.Command) -> None:
        """Queue a command for Slurm."""
        if self._slurm.add((key, command), rank(command)) and isinstance(command, c.ReadJob):
            self._job_reads.want(key, command.job_id)

    def send_held_back(self) -> None:
        """Send the commands that were held back, since Slurm's nodes are known now."""
        unsent, self._unsent = self._unsent, {}
        for key, command in unsent.items():
            self.put_for_slurm(key, command)

    def _announce(self, command: c.Announce) -> None:
        text = " ".join((command.text, *command.details))
        for ref in command.members:
            announcement = Announcement("Pod", ref.namespace, ref.name, ref.uid, command.reason, text, command.warning)
            self._announcer.announce(announcement)
