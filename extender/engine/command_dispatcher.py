"""Dispatch commands: into the queue for Slurm or for Kubernetes, held back, or announced as Events.

`WakePacing` decides when a gated Pod is woken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol

from extender.domain import commands as c
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Announcement, Announcer, Clock
from extender.domain.rules import RANKS, rank
from extender.domain.wellknown import Reason
from extender.engine.job_read_versions import JobReadVersions
from extender.engine.wake_pacing import WakePacing
from extender.runtime.controller import Controller
from extender.runtime.topics import PodFiltered, PodRemoved

SLURM_UNREAD = "Slurm's nodes and partitions have not been read yet; the job is submitted as soon as they are."

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


class CommandDispatcher:
    """`to_slurm` and `to_kubernetes` execute commands, `workers` of each at a time.

    Ends go before starts where both wait. Within a rank namespaces take turns, so that a namespace with a great many
    Pods delays no Pod of another one. The same command never runs twice at the same time.

    `may_wake`, `is_gated`: see `WakePacing`. `nodes_known`: Slurm's nodes and partitions have been read, without which
    nothing can be submitted. `namespace_of` gives the namespace of a workload by its key: namespaces take turns.
    `explain` returns why a workload waits.
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
        is_gated: Callable[[str], bool],
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
                flow_of=lambda work: namespace_of(work[0]),
                rerun=False,
                keep_early=True,
            )

        self._slurm = queue("slurm", to_slurm)
        self._kubernetes = queue("kubernetes", to_kubernetes)
        self._wakes = WakePacing(clock, may_wake, is_gated, self._put_for_kubernetes)
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

    def removed(self, event: PodRemoved) -> None:
        """Note that a Pod does not exist any more."""
        self._wakes.removed(event.pod.namespace, event.pod.uid)

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
