"""The drains that holds of Slurm nodes come to: sent, seen, lifted, and put on again where somebody else lifts one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace

import structlog

from extender.controllers.nodes.resumes import AFTER_A_RESUME, ResumeWatch
from extender.domain.nodes import machine as n
from extender.domain.ports import Clock, PortError, SlurmNodes

_log = structlog.get_logger(__name__)

AT_ONCE = 4
"""Drains under way: when a rack goes, the last of its nodes must not wait for all others."""

LOOK_EVERY = 0.5
"""Seconds between two looks for drains that Slurm did not take: the next look at all nodes may be a minute away."""


class Drains:
    """Owns what is known of every Slurm node that we hold. A node is told one word at a time, the latest one.

    `owner` is named in our drains, so that other extenders leave them alone (`domain.nodes.drains`). `there`: Slurm has
    this node, as far as is known; what was deleted from it is kept from nobody.
    """

    def __init__(self, slurm: SlurmNodes, clock: Clock, owner: str, there: Callable[[str], bool]) -> None:
        self._slurm = slurm
        self._clock = clock
        self._owner = owner
        self._there = there
        self._holds: dict[str, n.SlurmNodeHold] = {}
        self._owed: dict[str, n.NodeCommand] = {}
        """The latest word for each Slurm node that has not been sent."""

        self._sending: set[str] = set()
        self._taken: set[str] = set()
        """Nodes whose drain slurmctld has taken, seen or not, and none of whose is lifted since."""

        self._lifted: set[str] = set()
        """Nodes whose drain somebody else lifted, until slurmctld has taken it anew."""

        self.spoken: Counter[str] = Counter()
        """How often each node was changed: what was read before the last change says nothing."""

        self.drift: Counter[str] = Counter()
        """Drains of ours that others lifted while they were needed: `found`, and `repaired`."""

        self._asked = asyncio.Event()
        """Set when a drain is asked for that is not seen yet."""

        self._took = asyncio.Condition()
        self._work = asyncio.Event()
        self._resumes = ResumeWatch(clock, self._kept_drained, self._look_at)

    @property
    def holds(self) -> Mapping[str, n.SlurmNodeHold]:
        """Slurm nodes that we hold, or did, or that somebody else drained."""
        return self._holds

    @property
    def owing(self) -> bool:
        """Whether some node is not as it is to be, or that has not been seen."""
        return any(
            (hold.holds and hold.state is not n.NodeState.DRAINED) or hold.retry_at is not None
            for hold in self._holds.values()
        )

    def closely(self, slurm_node: str, seconds: float) -> None:
        """Pods may be ending there for so long: a drain that somebody lifts has to come back at once."""
        self._resumes.closely(slurm_node, seconds)

    def tell(self, slurm_node: str, event: n.NodeEvent) -> None:
        """Something happened to a node, or to our wish to hold it."""
        if isinstance(event, n.NodeSeen) and not event.drained:
            if slurm_node in self._taken:
                self._resumes.closely(slurm_node, AFTER_A_RESUME)
            self._taken.discard(slurm_node)
        before = self._holds.get(slurm_node) or n.SlurmNodeHold(slurm_node, owner=self._owner)
        after, commands = n.step(before, event, self._clock.now())
        if before.state is n.NodeState.DRAINED and before.holds and isinstance(event, n.NodeSeen) and not event.drained:
            self._lifted.add(slurm_node)
            self.drift["found"] += 1
        if after.state is n.NodeState.FREE and not after.holds:
            self._holds.pop(slurm_node, None)
        else:
            self._holds[slurm_node] = after
        if after.holds and after.state is n.NodeState.FOREIGN:
            self._resumes.begin()  # whoever lifts that drain gives the node away
        if after.state is n.NodeState.DRAINED and isinstance(event, n.NodeSeen) and event.drained:
            self._taken.add(slurm_node)  # whatever was answered to it
            self._resumes.begin()
        if after.holds and after.retry_at is not None:
            self._asked.set()
        for command in commands:
            self._owed[slurm_node] = command
            self._work.set()

    def ask_again(self) -> None:
        """Repeat what was asked long ago and has not been seen."""
        self._repeat(list(self._holds.values()))

    def deleted(self, slurm_node: str) -> None:
        """Slurm has this node no more. A later one of its name is not drained, whatever this one was."""
        self._owed.pop(slurm_node, None)
        self._taken.discard(slurm_node)
        hold = self._holds.pop(slurm_node, None)
        if hold is not None and hold.holds:
            self._holds[slurm_node] = replace(hold, state=n.NodeState.DRAINED, retry_at=None)

    def forget_gone(self, there: Container[str]) -> None:
        """Forget nodes that Slurm does not have and that nobody wants held. One that comes back drained is found."""
        for name in [name for name, hold in self._holds.items() if not hold.holds and self._is_gone(name, there)]:
            del self._holds[name]
        gone = {name for name in self.spoken.keys() | self._taken | self._lifted if self._is_gone(name, there)}
        for name in gone - self._holds.keys():
            self.spoken.pop(name, None)
            self._taken.discard(name)
            self._lifted.discard(name)

    def _is_gone(self, name: str, there: Container[str]) -> bool:
        return name not in there and name not in self._owed and name not in self._sending

    async def held(self, slurm_node: str) -> None:
        """Wait until slurmctld gives this node nothing new: our drain is taken, or there is another one."""
        async with self._took:
            await self._took.wait_for(lambda: self._keeps_off(slurm_node))

    async def run(self) -> None:
        """Carry drains out, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._resumes.run(), name="held nodes")
            group.create_task(self._drain_again(), name="drains that were not taken")
            for number in range(AT_ONCE):
                group.create_task(self._carry(), name=f"drains {number}")

    async def _drain_again(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            while unseen := [hold for hold in self._holds.values() if hold.holds and hold.retry_at is not None]:
                self._repeat(unseen)
                await asyncio.sleep(LOOK_EVERY)

    def _repeat(self, holds: Iterable[n.SlurmNodeHold]) -> None:
        """Ask again for those whose time has come."""
        for hold in holds:
            if self._is_due(hold):
                self.tell(hold.name, n.NodeTimer())

    def _is_due(self, hold: n.SlurmNodeHold) -> bool:
        """Whether it is time to ask again. What is under way is not asked again: Slurm may be slow to answer."""
        under_way = hold.name in self._owed or hold.name in self._sending
        due = hold.retry_at is not None and hold.retry_at <= self._clock.now()
        return due and not under_way and self._there(hold.name)

    def _keeps_off(self, slurm_node: str) -> bool:
        hold = self._holds.get(slurm_node)
        return slurm_node in self._taken or (hold is not None and hold.state is n.NodeState.FOREIGN)

    def _kept_drained(self) -> list[str]:
        return [name for name, hold in self._holds.items() if hold.holds and self._keeps_off(name)]

    async def _look_at(self, name: str) -> None:
        spoken = self.spoken[name]
        try:
            node = await self._slurm.node(name)
        except PortError:
            return  # the look at all nodes tells of it
        if spoken == self.spoken[name]:
            self.tell(name, n.NodeSeen(node.drained, node.reason))

    async def _carry(self) -> None:
        while True:
            await self._work.wait()
            node = next((name for name in self._owed if name not in self._sending), None)
            if node is None:
                self._work.clear()
                continue
            self._sending.add(node)
            self.spoken[node] += 1
            command = self._owed.pop(node)
            accepted = await self._sent(command)
            self._sending.discard(node)
            self.spoken[node] += 1
            self.tell(node, n.DrainAnswered(accepted))
            if accepted and isinstance(command, n.DrainNode) and node not in self._owed:
                self.tell(node, n.NodeSeen(True, command.reason))  # slurmctld has done it when it answers
            self._work.set()  # for what became owed on this node meanwhile
            async with self._took:
                self._took.notify_all()

    async def _sent(self, command: n.NodeCommand) -> bool:
        try:
            match command:
                case n.DrainNode(node, reason):
                    await self._slurm.drain(node, reason)
                    self._taken.add(node)
                    self._resumes.begin()
                    if node in self._lifted:
                        self._lifted.discard(node)
                        self.drift["repaired"] += 1
                    _log.info("node_drained", node=node, reason=reason)
                case n.ResumeNode(node):
                    self._taken.discard(node)
                    await self._slurm.resume(node)
                    _log.info("node_resumed", node=node)
        except PortError as error:
            _log.warning("node_not_changed", node=command.node, error=str(error))
            return False
        return True
