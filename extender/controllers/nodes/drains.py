"""Keep held Slurm nodes drained: send drains, see them, lift them, and repeat those that were undone.

A node is held for causes: a workload whose Pods outlive its job, a Node that is not Ready, and others. While there is
one the node has to be drained. The state machine of one node is `domain.nodes.machine`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import structlog

from extender.controllers.nodes.resumes import AFTER_A_RESUME, ResumeWatch
from extender.domain.cluster import SlurmSnapshot
from extender.domain.nodes import machine as n
from extender.domain.ports import Clock, PortError, SlurmNodes
from extender.runtime.controller import Controller, Requeue
from extender.runtime.event_bus import EventBus
from extender.runtime.timers import TICK
from extender.runtime.topics import DrainFound

_log = structlog.get_logger(__name__)

AT_ONCE = 4
"""Drains under way: when a rack goes, the last of its nodes must not wait for all others."""

NODE_CAUSE = "node "
"""The prefix of causes that concern a Node and no Pod (`health`): no Pod outlives a job for them."""

SILENT_CAUSE = "silent "
"""How causes of holds begin for nodes whose slurmd does not answer; no key of a workload has a space."""


class Drains:
    """Own the record of every held Slurm node. One request at a time is sent for a node, the latest one.

    `owner` is named in the drains, so that other extenders leave them alone (`domain.nodes.drain_reasons`). `events`
    learns of each drain of an extender that is about to be changed: the process before may have made it.
    """

    def __init__(self, slurm: SlurmNodes, clock: Clock, owner: str, events: EventBus) -> None:
        self._slurm = slurm
        self._clock = clock
        self._owner = owner
        self._events = events
        self._nodes = SlurmSnapshot()
        self._holds: dict[str, n.SlurmNodeHold] = {}
        self._owed: dict[str, n.NodeCommand] = {}
        """The latest command for each Slurm node that has not been sent."""

        self._taken: set[str] = set()
        """Nodes whose drain slurmctld has taken, seen or not, and none of which is lifted since."""

        self._lifted: set[str] = set()
        """Nodes whose drain was lifted from outside, until slurmctld has accepted it again."""

        self.changes: Counter[str] = Counter()
        """How often each node was changed: what was read before the last change says nothing."""

        self.drift: Counter[str] = Counter()
        """Drains that others lifted while they were needed: `found`, and `repaired`."""

        self._took = asyncio.Condition()
        self._sender = Controller("drains", self._reconcile, workers=AT_ONCE, keep_early=True)
        self._resumes = ResumeWatch(clock, self._is_kept_drained, self._read)

    @property
    def holds(self) -> Mapping[str, n.SlurmNodeHold]:
        """Return the Slurm nodes that are or were held, or that are drained otherwise."""
        return self._holds

    @property
    def owing(self) -> bool:
        """Return whether some node is not in its wanted state, or has not been seen in it."""
        return any(
            (hold.holds and hold.state is not n.DrainState.DRAINED) or hold.retry_at is not None
            for hold in self._holds.values()
        )

    def is_there(self, slurm_node: str) -> bool:
        """Return whether Slurm has this node, as far as is known."""
        return not self._nodes.known or slurm_node in self._nodes.nodes

    def keeps(self, slurm_node: str) -> bool:
        """Return whether Slurm surely starts nothing there: the drain was seen since it was asked, or no node is."""
        hold = self._holds.get(slurm_node)
        drained = hold is not None and hold.state in {n.DrainState.DRAINED, n.DrainState.FOREIGN}
        return drained or not self.is_there(slurm_node)

    def workload_causes(self, slurm_node: str) -> list[tuple[str, str]]:
        """Return why nothing may start on this node: for each workload whose Pods outlive their job, key and text."""
        hold = self._holds.get(slurm_node)
        return [one for one in hold.holds.items() if not one[0].startswith((SILENT_CAUSE, NODE_CAUSE))] if hold else []

    def kept_from(self, slurm_node: str, workload: str) -> str:
        """Return why this workload may not start there; "" where no Pod of another outlives its job."""
        return next((text for cause, text in self.workload_causes(slurm_node) if cause != workload), "")

    def closely(self, slurm_node: str, seconds: float) -> None:
        """Record that Pods may be ending there for so long: a drain that is lifted has to be restored at once."""
        self._resumes.closely(slurm_node, seconds)

    def notify(self, slurm_node: str, event: n.NodeEvent) -> None:
        """Take a step of a node's state machine."""
        if isinstance(event, n.NodeSeen) and not event.drained:
            if slurm_node in self._taken:
                self._resumes.closely(slurm_node, AFTER_A_RESUME)
            self._taken.discard(slurm_node)
        before = self._holds.get(slurm_node) or n.SlurmNodeHold(slurm_node, owner=self._owner)
        after, commands = n.step(before, event, self._clock.now())
        if (
            before.state is n.DrainState.DRAINED
            and before.holds
            and isinstance(event, n.NodeSeen)
            and not event.drained
        ):
            self._lifted.add(slurm_node)
            self.drift["found"] += 1
        if after.state is n.DrainState.FREE and not after.holds:
            self._holds.pop(slurm_node, None)
        else:
            self._holds[slurm_node] = after
        if after.holds and after.state is n.DrainState.FOREIGN:
            self._resumes.begin(slurm_node)  # when that drain is lifted, the node takes jobs
        if after.state is n.DrainState.DRAINED and isinstance(event, n.NodeSeen) and event.drained:
            self._taken.add(slurm_node)  # whatever was answered to it
            self._resumes.begin(slurm_node)
        for command in commands:
            self._owed[slurm_node] = command
        if commands or after.retry_at is not None:
            self._sender.add(slurm_node)

    def nodes_read(self, nodes: SlurmSnapshot) -> None:
        """Take note of Slurm's nodes, and repeat what waits for one of them."""
        self._nodes = nodes
        for hold in self._holds.values():
            if hold.retry_at is not None:
                self._sender.add(hold.name)

    def deleted(self, slurm_node: str) -> None:
        """Handle a node that Slurm no longer has. A later one of its name is not drained because of this one."""
        self._owed.pop(slurm_node, None)
        self._taken.discard(slurm_node)
        hold = self._holds.pop(slurm_node, None)
        if hold is not None and hold.holds:
            self._holds[slurm_node] = replace(hold, state=n.DrainState.DRAINED, retry_at=None)

    def forget_gone(self) -> None:
        """Forget nodes that Slurm does not have and that have no hold. One that returns drained is found."""
        for name in [name for name, hold in self._holds.items() if not hold.holds and self._is_gone(name)]:
            del self._holds[name]
        gone = {name for name in self.changes.keys() | self._taken | self._lifted if self._is_gone(name)}
        for name in gone - self._holds.keys():
            self.changes.pop(name, None)
            self._taken.discard(name)
            self._lifted.discard(name)
            self._resumes.forget(name)

    def _is_gone(self, name: str) -> bool:
        return name not in self._nodes.nodes and name not in self._owed and not self._sender.queue.works_on(name)

    async def wait_until_drained(self, slurm_node: str) -> None:
        """Wait until slurmctld gives this node nothing new: its drain is taken, or there is another one."""
        async with self._took:
            await self._took.wait_for(lambda: self._keeps_off(slurm_node))

    async def run(self) -> None:
        """Send and watch drains until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._resumes.run(), name="held nodes")
            group.create_task(self._sender.run(), name="drains")

    async def _reconcile(self, node: str) -> Requeue | None:
        """Send what is owed to a node, or repeat what was asked long ago and was not seen."""
        hold = self._holds.get(node)
        due = hold is not None and hold.retry_at is not None and hold.retry_at <= self._clock.now()
        if due and node not in self._owed and self.is_there(node):
            self.notify(node, n.NodeTimer())
        if (command := self._owed.pop(node, None)) is not None:
            await self._send(node, command)
        hold = self._holds.get(node)
        if hold is None or hold.retry_at is None or not self.is_there(node):
            return None  # if Slurm does not have the node, `nodes_read` reports when it does
        return Requeue(max(hold.retry_at - self._clock.now(), TICK))

    async def _send(self, node: str, command: n.NodeCommand) -> None:
        self.changes[node] += 1
        accepted = await self._sent(command)
        self.changes[node] += 1
        self.notify(node, n.DrainAnswered(accepted))
        if accepted and isinstance(command, n.DrainNode) and node not in self._owed:
            self.notify(node, n.NodeSeen(True, command.reason))  # slurmctld has done it when it answers
        async with self._took:
            self._took.notify_all()

    def _keeps_off(self, slurm_node: str) -> bool:
        hold = self._holds.get(slurm_node)
        return slurm_node in self._taken or (hold is not None and hold.state is n.DrainState.FOREIGN)

    def _is_kept_drained(self, slurm_node: str) -> bool:
        hold = self._holds.get(slurm_node)
        return hold is not None and bool(hold.holds) and self._keeps_off(slurm_node)

    async def _read(self, name: str) -> None:
        changes = self.changes[name]
        try:
            node = await self._slurm.node(name)
        except PortError:
            return  # the poll of all nodes has the answer
        if changes == self.changes[name]:
            self.notify(name, n.NodeSeen(node.drained, node.reason))

    async def _sent(self, command: n.NodeCommand) -> bool:
        try:
            match command:
                case n.DrainNode(node, reason):
                    await self._slurm.drain(node, reason, partial(self._reason_after, node))
                    self._taken.add(node)
                    self._resumes.begin(node)
                    if node in self._lifted:
                        self._lifted.discard(node)
                        self.drift["repaired"] += 1
                    _log.info("node_drained", node=node, reason=reason)
                case n.ResumeNode(node):
                    self._taken.discard(node)
                    await self._slurm.resume(node, partial(self._reason_after, node))
                    _log.info("node_resumed", node=node)
        except PortError as error:
            _log.warning("node_not_changed", node=command.node, error=str(error))
            return False
        return True

    def _reason_after(self, node: str, found: str) -> str:
        """Have a drain adopted whose reason is about to be overwritten; return the reason that this demands, or ""."""
        self._events.publish(DrainFound(node, found))
        owed = self._owed.get(node)
        return owed.reason if isinstance(owed, n.DrainNode) else ""
