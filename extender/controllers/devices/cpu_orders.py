"""Look up in which order Slurm counts the CPUs of a Node, and report once where that is not known."""

from __future__ import annotations

from collections.abc import Callable

from extender.domain.cluster import SlurmNode
from extender.domain.devices.cpu_order import NodeCpus
from extender.domain.devices.device_map import DeviceMap
from extender.domain.ports import Announcement, Announcer
from extender.domain.views import NodeView
from extender.domain.wellknown import Reason

REPORTED_KEPT = 10_000
"""Nodes of which it is remembered what was reported."""


class CpuOrders:
    """Answer for every Node. `slurm_node` returns the Slurm node of a Node."""

    def __init__(
        self,
        device_map: DeviceMap,
        nodes: Callable[[str], NodeView | None],
        slurm_node: Callable[[str], SlurmNode | None],
        announcer: Announcer,
    ) -> None:
        self._map = device_map
        self._nodes = nodes
        self._slurm_node = slurm_node
        self._announcer = announcer
        self._reported: dict[str, str] = {}

    def order(self, name: str) -> tuple[int, ...]:
        """Return the Linux CPUs of a Node in Slurm's order. Raises `ValueError` with the cause."""
        node = self._nodes(name)
        if node is None:
            raise ValueError("the Node does not exist")
        reserved = self._map.cpus.reserved if self._map.cpus is not None else frozenset[int]()
        return NodeCpus.of(node, self._slurm_node(name)).order(reserved)

    def report(self, name: str, text: str) -> None:
        """Report by an Event on a Node that its CPUs are left to kube-scheduler: once for each cause."""
        node = self._nodes(name)
        if node is None or self._reported.get(name) == text:
            return
        self._reported.pop(name, None)
        self._reported[name] = text
        if len(self._reported) > REPORTED_KEPT:
            del self._reported[next(iter(self._reported))]
        sentence = f"{text} ResourceClaims for CPUs are left to kube-scheduler there (docs/devices.md)."
        self._announcer.announce(
            Announcement("Node", "", name, node.uid, Reason.CPUS_NOT_CHOSEN_BY_SLURM, sentence, warning=True)
        )
