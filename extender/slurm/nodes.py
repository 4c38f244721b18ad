"""Slurm's nodes and partitions through slurmrestd: implements `ports.SlurmNodes`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from extender.domain.amount import Amount
from extender.domain.cluster import SlurmFeatures, SlurmNode, SlurmPartition, SlurmSnapshot
from extender.domain.nodes.drain_reasons import earlier_reason, is_own_drain, with_earlier_reason
from extender.domain.nodes.external_nodes import mark, marked
from extender.domain.ports import Clock, PortError, ReasonAfter, SlurmNodes
from extender.domain.wellknown import DRAIN_PREFIX
from extender.slurm.api_requests import ObserveRequest, as_port_error, timed, unobserved
from slurmclient import Gres, Node, NodeUpdate, Partition, SlurmClient

_log = structlog.get_logger(__name__)

NOT_RESPONDING = "Not responding"
"""What slurmctld writes on a node that it sets DOWN for that, unless a reason is there (`set_node_down_ptr`): it brings
back no other with ReturnToService=1 (`validate_node_specs` in `node_mgr.c`)."""

MANY = 500
"""More nodes than this are carried over in a thread, a dozen microseconds each; kube-scheduler's calls go on."""

CONF_EVERY = 60.0
"""Seconds between two readings of slurm.conf: it changes with `scontrol reconfigure` alone."""

RECENT_S = 60.0
"""Seconds for which the reason of a node is new."""


class SlurmrestdNodes:
    """Read and drain Slurm's nodes.

    `send_user_signal`, `preempting_qos`, `default_partition` are the site's statements about slurm.conf: slurmrestd
    shows none of them before 26.05. If Slurm does mark a default partition, that counts. `owner` is named in the
    extender's drains (`domain.nodes.drain_reasons`).
    """

    def __init__(
        self,
        client: SlurmClient,
        clock: Clock,
        *,
        send_user_signal: bool = False,
        preempting_qos: frozenset[str] = frozenset(),
        default_partition: str = "",
        external_anywhere: bool = False,
        owner: str = "",
        observe_request: ObserveRequest = unobserved,
    ) -> None:
        self._client = client
        self._clock = clock
        self._owner = owner
        self._send_user_signal = send_user_signal
        self._preempting_qos = preempting_qos
        self._default_partition = default_partition
        self._external_anywhere = external_anywhere
        self._observe = observe_request
        self._of_all = frozenset[str]()
        """Words of the PreemptMode of the whole cluster, where Slurm shows it."""

        self._qos_preempts = False
        self._gres_types: frozenset[str] | None = None
        self._of_all_at: float | None = None
        self._converted: dict[str, tuple[Node, SlurmNode]] = {}
        """Nodes by name, as they were read and as they were carried over."""

    async def snapshot(self) -> SlurmSnapshot:
        """Read nodes, then partitions."""
        async with as_port_error("its nodes"), timed("nodes", self._clock, self._observe):
            nodes = await self._client.nodes()
        async with as_port_error("its partitions"), timed("partitions", self._clock, self._observe):
            partitions = await self._client.partitions()
        await self._read_conf()
        for entry in (*nodes.unreadable, *partitions.unreadable):
            _log.warning("slurm_record_unreadable", name=entry.name, error=entry.why)
        self._converted = await asyncio.to_thread(self._convert, nodes) if len(nodes) > MANY else self._convert(nodes)
        return SlurmSnapshot(
            nodes={name: converted for name, (_, converted) in self._converted.items()},
            partitions=self._with_default([slurm_partition(partition, self._of_all) for partition in partitions]),
            features=self._features(),
            known=True,
        )

    def _convert(self, nodes: Iterable[Node]) -> dict[str, tuple[Node, SlurmNode]]:
        """Return the nodes by name; a node that did not change since the last read keeps its converted form."""
        converted: dict[str, tuple[Node, SlurmNode]] = {}
        for node in nodes:
            before = self._converted.get(node.name)
            if before is None or before[0] is not node:
                before = (node, slurm_node(node, self._owner))
            converted[node.name] = before
        return converted

    async def _read_conf(self) -> None:
        """Read from slurm.conf, now and then, what partitions do not show. If that fails, the last values stay."""
        now = self._clock.now()
        if not self._client.capabilities.conf or (self._of_all_at is not None and now - self._of_all_at < CONF_EVERY):
            return
        try:
            async with as_port_error("slurm.conf"), timed("conf", self._clock, self._observe):
                conf = await self._client.conf()
            self._gres_types = conf.gres_types
            self._of_all, self._qos_preempts = conf.preempt_mode, conf.preempt_type == "preempt/qos"
            self._of_all_at = now
        except PortError as error:
            _log.info("slurm_conf_not_read", error=str(error))

    async def node(self, node: str) -> SlurmNode:
        """Read one node."""
        async with as_port_error(f"Slurm node {node}"), timed("node", self._clock, self._observe):
            return slurm_node(await self._client.node(node), self._owner)

    async def drain(self, node: str, reason: str, found: ReasonAfter = lambda _reason: "") -> None:
        """Drain a node; the reason gets the extender's prefix if it has none, so that the drain is recognised later.

        Another author's drain, which may be newer than the last poll of all nodes, is not overwritten: it would be
        lifted with this one. Nor is the reason of a FAIL. Raises `PortError` then. The reason of a node that is DOWN
        stays, behind the extender's (`domain.nodes.drain_reasons`).
        """
        async with as_port_error(f"Slurm node {node}"), timed("node", self._clock, self._observe):
            read = await self._client.node(node)
        now = slurm_node(read)
        if now.drained and not is_own_drain(now.reason, self._owner):
            word = "drained" if "DRAIN" in now.flags else "FAIL"
            raise PortError(f"Slurm node {node} is {word} for {now.reason!r}; the extender does not overwrite that")
        if now.drained:
            reason = found(now.reason) or reason
        text = reason if reason.startswith(DRAIN_PREFIX) else f"{DRAIN_PREFIX} {reason}"
        if now.state == "DOWN" or self._may_be_down(read):
            text = with_earlier_reason(text, earlier_reason(read.latest_reason))
        async with as_port_error(f"a drain of Slurm node {node}"), timed("drain", self._clock, self._observe):
            await self._client.update_node(node, NodeUpdate(state=("DRAIN",), reason=text))

    async def resume(self, node: str, found: ReasonAfter = lambda _reason: "") -> None:
        """Lift a drain of the extender. A node that is not drained stays as it is. Raises `PortError`.

        UNDRAIN, not RESUME: it leaves a DOWN node DOWN (`scontrol(1)`), and the extender does not resume DOWN nodes.
        Such a node gets its earlier reason back.
        """
        async with as_port_error(f"Slurm node {node}"), timed("node", self._clock, self._observe):
            now = await self._client.node(node)
        if not now.drained:
            return
        if not is_own_drain(now.reason, self._owner):
            raise PortError(
                f"Slurm node {node} is drained for {now.reason!r} by another author: the drain is not lifted"
            )
        if found(now.reason):
            raise PortError(f"Slurm node {node} has to stay drained for {now.reason!r}: the drain is not lifted")
        async with (
            as_port_error(f"an end of the drain of Slurm node {node}"),
            timed("resume", self._clock, self._observe),
        ):
            await self._client.update_node(node, NodeUpdate(state=("UNDRAIN",), reason=_earlier_reason(now)))

    def _may_be_down(self, node: Node) -> bool:
        """Return whether a node that is shown as MIXED got its reason just now, so that it may be DOWN.

        Of a node whose jobs hold some of its CPUs, Slurm shows MIXED in place of DOWN until it has counted the CPUs
        again (26.05.5; slurmctld `_slurm_rpc_dump_node_single` leaves out the count). Older words have no meaning:
        Slurm may keep them after a RESUME.
        """
        set_at = node.latest_reason_time
        return node.state.value == "MIXED" and set_at is not None and abs(self._clock.wall() - set_at) < RECENT_S

    def _with_default(self, partitions: Sequence[SlurmPartition]) -> dict[str, SlurmPartition]:
        """Return the partitions by name, the default one marked: as Slurm or the site says, else the only one."""
        if not any(partition.default for partition in partitions):
            only = partitions[0].name if len(partitions) == 1 else ""
            name = self._default_partition or only
            partitions = [replace(partition, default=partition.name == name) for partition in partitions]
        return {partition.name: partition for partition in partitions}

    def _features(self) -> SlurmFeatures:
        capabilities = self._client.capabilities
        release = capabilities.release
        return SlurmFeatures(
            release=(release.year, release.month, release.micro),
            allocate=capabilities.allocate,
            external=capabilities.external_jobs,
            external_anywhere=self._external_anywhere,
            send_user_signal=self._send_user_signal,
            preempting_qos=self._preempting_qos,
            register=capabilities.new_node and capabilities.external_nodes,
            renew=capabilities.renewed_nodes,
            gres_types=self._gres_types,
            qos_preempts=self._qos_preempts,
        )


def _earlier_reason(node: Node) -> str | None:
    """Return the earlier reason of a DOWN node whose drain ends; `None`: nothing to restore.

    MIXED may stand for DOWN (`SlurmrestdNodes._may_be_down`). The reason of a node that is up has no meaning.
    """
    earlier = earlier_reason(node.reason)
    if node.state.value == "MIXED":
        return earlier or None
    if node.state.value != "DOWN":
        return None
    return earlier or (None if node.responding else NOT_RESPONDING)


def slurm_node(node: Node, owner: str = "") -> SlurmNode:
    """Convert a node; `owner` is the author of the extender's drains (`drains.drainer`)."""
    registrar, registered_for = marked(node.features)
    return SlurmNode(
        name=node.name,
        hostname=node.hostname,
        address=node.address,
        state=node.state.value,
        flags=node.flags,
        reason=node.reason,
        reason_user=node.reason_user,
        partitions=node.partitions,
        cpus=node.cpus,
        memory_mb=node.real_memory_mb,
        gres=configured_gres(node.gres),
        size=Amount(
            node.effective_cpus or node.cpus,
            node.real_memory_mb - node.specialized_memory_mb,
            configured_gres(node.gres),
        ),
        used=Amount(node.allocated_cpus, node.allocated_memory_mb, configured_gres(node.gres_used)),
        features=tuple(one for one in node.features if one != mark(owner, registered_for)),
        topology=node.topology,
        registered_for=registered_for if registrar == owner else "",
    )


def configured_gres(gres: Iterable[Gres]) -> dict[str, int]:
    """Return the configured GRES of a node, by name and type."""
    counts: dict[str, int] = {}
    for one in gres:
        name = f"{one.name}:{one.type}" if one.type else one.name
        counts[name] = counts.get(name, 0) + one.count
    return counts


def slurm_partition(partition: Partition, of_all: frozenset[str] = frozenset()) -> SlurmPartition:
    """Carry a partition over; `of_all` is the PreemptMode of the whole cluster. A missing tier is Slurm's default, 1.

    Before 26.05 slurmrestd does not show PreemptMode: it is `UNKNOWN` then, which is not the same as off. `GANG` it
    shows of no partition, not even of one that says so itself: that is a switch of the whole cluster (26.05.5).
    """
    mode = set(partition.preempt_mode)
    if of_all and mode == {"CLUSTER_GLOBAL"}:
        mode = set(of_all)
    if "GANG" in of_all and not mode & {"OFF", "DISABLED"}:
        mode.add("GANG")
    return SlurmPartition(
        name=partition.name,
        nodes=frozenset(partition.nodes),
        default=partition.default is True,
        priority_tier=1 if partition.priority_tier is None else partition.priority_tier,
        grace_time_s=partition.grace_time_s,
        preempt_mode=",".join(sorted(mode)) or "UNKNOWN",
        max_time_minutes=partition.max_time_minutes if isinstance(partition.max_time_minutes, int) else None,
        reserved_for=_reserved_for(partition),
    )


def _reserved_for(partition: Partition) -> tuple[str, ...]:
    """Return who may use a partition, a text for each kind. `ALL` stands for no restriction (`slurm.conf(5)`)."""
    lists = (
        ("AllowGroups", partition.allowed_groups),
        ("AllowAccounts", partition.allowed_accounts),
        ("AllowQos", partition.allowed_qos),
    )
    return tuple(f"{key}={','.join(names)}" for key, names in lists if names and "ALL" not in map(str.upper, names))


if TYPE_CHECKING:

    def _implements(nodes: SlurmrestdNodes) -> SlurmNodes:
        return nodes
