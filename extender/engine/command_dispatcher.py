"""Dispatch commands: into the queue for Slurm or for Kubernetes, held back, or announced as Events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol

from extender.domain import commands as c
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Announcement, Announcer
from extender.domain.rules import RANKS, rank
from extender.domain.wellknown import Reason
from extender.engine.jobs.read_versions import JobReadVersions
from extender.runtime.controller import Controller

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

    `nodes_known`: Slurm's nodes and partitions have been read, without which nothing can be submitted. `namespace_of`
    gives the namespace of a workload by its key: namespaces take turns. `explain` returns why a workload waits.
    """

    def __init__(
        self,
        to_slurm: Execute,
        to_kubernetes: Execute,
        readings: JobReadVersions,
        announcer: Announcer,
        *,
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

    def put(self, p: Placeholder, command: c.Command) -> None:
        """Queue a command that a step of this workload requests."""
        match command:
            case c.Announce():
                waits = command.reason is Reason.JOB_PENDING and p.state is State.WAITING
                self._announce(replace(command, text=self._explain(p) or command.text) if waits else command)
            case c.WakePod() | c.NoteCancelled() | c.EndPod():
                self._kubernetes.add((p.key, command), rank(command))
            case c.SubmitJob() if not self._nodes_known():
                self._unsent[p.key] = command
                self._announce(c.Announce(p.refs, Reason.RETRYING, SLURM_UNREAD, True))
            case _:
                self.ask_slurm(p.key, command)

    def ask_slurm(self, key: str, command: c.Command) -> None:
        """Queue a command for Slurm."""
        if self._slurm.add((key, command), rank(command)) and isinstance(command, c.ReadJob):
            self._job_reads.want(key, command.job_id)

    def send_held_back(self) -> None:
        """Send the commands that were held back, since Slurm's nodes are known now."""
        unsent, self._unsent = self._unsent, {}
        for key, command in unsent.items():
            self.ask_slurm(key, command)

    def _announce(self, command: c.Announce) -> None:
        text = " ".join((command.text, *command.details))
        for ref in command.members:
            announcement = Announcement("Pod", ref.namespace, ref.name, ref.uid, command.reason, text, command.warning)
            self._announcer.announce(announcement)
