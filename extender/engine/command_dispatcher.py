"""Dispatch commands: into the queue for Slurm or for Kubernetes, held back, or announced as Events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from extender.domain import commands as c
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Announcement, Announcer
from extender.domain.wellknown import Reason
from extender.engine.command_queues import Carry, CommandQueue
from extender.engine.job_read_versions import JobReadVersions

SLURM_UNREAD = "Slurm's nodes and partitions have not been read yet; the job is submitted as soon as they are."


class CommandDispatcher:
    """`to_slurm` and `to_kubernetes` carry commands out, `workers` of each at a time.

    `nodes_known`: Slurm's nodes and partitions have been read, without which nothing can be submitted. `namespace_of`
    gives the namespace of a unit by its key: namespaces take turns.
    """

    def __init__(
        self,
        to_slurm: Carry,
        to_kubernetes: Carry,
        readings: JobReadVersions,
        announcer: Announcer,
        *,
        nodes_known: Callable[[], bool],
        namespace_of: Callable[[str], str],
        workers: int,
    ) -> None:
        self.sentence: Callable[[Placeholder], str] = lambda _p: ""
        """Why a unit waits, in one sentence, for its Events."""

        self._slurm = CommandQueue("slurm", workers, to_slurm, namespace_of)
        self._kubernetes = CommandQueue("kubernetes", workers, to_kubernetes, namespace_of)
        self._job_reads = readings
        self._announcer = announcer
        self._nodes_known = nodes_known
        self._workers = workers
        self._unsent: dict[str, c.SubmitJob] = {}
        """The submission of each unit that waits until Slurm's nodes are known."""

    @property
    def waiting(self) -> Mapping[str, int]:
        """How many commands wait for their turn, by whom they are for."""
        return {lane.name: len(lane) for lane in (self._slurm, self._kubernetes)}

    def busy(self) -> bool:
        """More commands wait for Slurm than can be under way."""
        return len(self._slurm) > self._workers

    async def run(self) -> None:
        """Carry commands out until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._slurm.run(), name="slurm lane")
            group.create_task(self._kubernetes.run(), name="kubernetes lane")

    def put(self, p: Placeholder, command: c.Command) -> None:
        """What a step of this unit asks for."""
        match command:
            case c.Announce():
                waits = command.reason is Reason.WAITING and p.state is State.WAITING
                self._announce(replace(command, text=self.sentence(p) or command.text) if waits else command)
            case c.WakePod() | c.NoteCancelled() | c.EndPod():
                self._kubernetes.put(p.key, command)
            case c.SubmitJob() if not self._nodes_known():
                self._unsent[p.key] = command
                self._announce(c.Announce(p.refs, Reason.RETRYING, SLURM_UNREAD, True))
            case _:
                self.ask_slurm(p.key, command)

    def ask_slurm(self, key: str, command: c.Command) -> None:
        """Queue a command for Slurm."""
        if self._slurm.put(key, command) and isinstance(command, c.ReadJob):
            self._job_reads.want(key, command.job_id)

    def send_held_back(self) -> None:
        """Slurm's nodes are known."""
        unsent, self._unsent = self._unsent, {}
        for key, command in unsent.items():
            self.ask_slurm(key, command)

    def _announce(self, command: c.Announce) -> None:
        text = " ".join((command.text, *command.details))
        for ref in command.members:
            said = Announcement("Pod", ref.namespace, ref.name, ref.uid, command.reason, text, command.warning)
            self._announcer.announce(said)
