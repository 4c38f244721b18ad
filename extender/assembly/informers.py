"""Build the informers: stores of Kubernetes objects, and the reflectors that fill them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from extender.assembly.io_context import IoContext
from extender.config.devices import device_map
from extender.config.document import ExtenderConfiguration
from extender.domain.views import NodeView, PodView
from extender.kube.devices import DeviceInformers
from extender.kube.namespaced_pods import NamespacedPods
from extender.kube.pod_groups import PodGroupInformers
from extender.kube.reflector import Reflector
from extender.kube.store import DeviceClassStore, NamespaceStore, NodeStore, PodStore
from extender.kube.wire.stream import DEVICE_CLASS, NAMESPACE, NODE, POD

DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
"""Kubernetes 1.34 and later; the field that matters is from there on too (KEP-5004)."""


class Informers:
    """The informers of Pods, Nodes, Namespaces, DeviceClasses, PodGroups, ResourceClaims and ResourceSlices."""

    def __init__(self, config: ExtenderConfiguration, io_context: IoContext) -> None:
        kubernetes, rng = io_context.kubernetes, io_context.rng
        self._scheduler = config.scheduler.name
        self.slurmd = config.nodes.slurmd_selector
        """Which Pods run a slurmd."""

        self.pods = PodStore([self._scheduler], self.slurmd)
        self.nodes = NodeStore()
        self.namespaces = NamespaceStore()
        self.device_classes = DeviceClassStore()
        self.devices = DeviceInformers(
            kubernetes, device_map(config.devices, config.cpus), self.device_classes, rng=rng
        )
        self.pod_groups = PodGroupInformers(kubernetes, config.gangs.pod_groups, rng=rng)
        read = config.scope.read_namespaces
        self.pod_reflector = (
            Reflector(kubernetes, "/api/v1/pods", POD, self.pods, rng=rng, keep=self.pods.keep)
            if read is None
            else NamespacedPods(kubernetes, read, self.pods, rng=rng)
        )
        self.node_reflector = Reflector(kubernetes, "/api/v1/nodes", NODE, self.nodes, rng=rng)
        self.namespace_reflector = Reflector(kubernetes, "/api/v1/namespaces", NAMESPACE, self.namespaces, rng=rng)
        self.class_reflector = Reflector(
            kubernetes, DEVICE_CLASSES, DEVICE_CLASS, self.device_classes, rng=rng, optional=True
        )

    @property
    def synced(self) -> bool:
        """Return whether the cluster's state at the start is known, though perhaps not adopted."""
        return self.pods.synced and self.nodes.synced and self.pod_groups.synced and self.devices.synced

    @property
    def trouble(self) -> str:
        """Return why Pods or Nodes may be outdated; "": they are up to date."""
        return self.pod_reflector.status.trouble or self.node_reflector.status.trouble

    async def wait_synced(self) -> None:
        """Wait for the first lists of Pods, Nodes, devices, and PodGroups: those name the gangs, and their jobs."""
        await self.pods.wait_synced()
        await self.nodes.wait_synced()
        await self.pod_groups.wait_synced()
        await self.devices.wait_synced()

    async def relist(self) -> None:
        """List Pods, Nodes, PodGroups and devices once more, independently of the watches."""
        await asyncio.gather(
            self.pod_reflector.relist(),
            self.node_reflector.relist(),
            self.pod_groups.relist(),
            self.devices.relist(),
        )

    def kube_nodes(self) -> dict[str, NodeView]:
        """Return Nodes by name."""
        return {node.name: node for node in self.nodes.all()}

    def slurmds(self) -> Sequence[PodView] | None:
        """Return Pods that run a slurmd; `None`: not known yet."""
        return self.pods.slurmds() if self.pods.synced or not self.slurmd.labels else None

    def foreign_pods(self) -> Sequence[PodView]:
        """Return Pods of other schedulers that are no slurmd Pods: those belong to Slurm."""
        own = self._scheduler
        return [pod for pod in self.pods.all() if pod.scheduler_name != own and not self.slurmd.selects(pod)]
