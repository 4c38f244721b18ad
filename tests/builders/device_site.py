"""A simulated site of two Nodes with four GPUs each, whose devices are in ResourceSlices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from extender.domain.wellknown import GATE
from simulator.cluster import simulated_cluster
from simulator.kube.dynamic_resources import DynamicResources
from simulator.kube.objects import Json
from simulator.slurm.records import SimNode
from tests.builders.process_site import CONFIG, Site
from tests.builders.rights import shipped_rights

DRIVER = "gpu.example.com"
DEVICES = "status.slurm-extender.io/devices"
MAP = f"""
devices: [{{gres: gpu, driver: {DRIVER}, deviceClasses: [{DRIVER}], match: {{attribute: index}}}}]
jobs: {{gres: [{{resource: example.com/gpu, gres: gpu}}]}}
"""


class DeviceSite(Site):
    """Two Nodes with four GPUs each."""

    dra: DynamicResources

    def add(
        self, name: str, count: int = 1, *, gated: bool = True, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Create a Pod with a ResourceClaim from a template for so many GPUs."""
        resource_claims = [{"name": "g", "resourceClaimTemplateName": f"{DRIVER}x{count}"}]
        gates = (GATE,) if gated else ()
        self.kube.add_pod(name, gates=gates, annotations=annotations, spec_more={"resourceClaims": resource_claims})

    def resource_claim_of(self, name: str) -> Json:
        found = self.pod(name)["status"].get("resourceClaimStatuses", [{}])[0].get("resourceClaimName", "")
        resource_claim = self.dra.resource_claim(found)
        assert resource_claim is not None
        return resource_claim

    def devices(self, name: str) -> list[str]:
        """Return the devices of the Pod's own ResourceClaim."""
        return self.dra.devices_of(self.resource_claim_of(name)["metadata"]["name"])

    def indexes(self, name: str) -> list[str]:
        """Return Slurm's devices of the Pod, by the names that they have in Kubernetes."""
        text = self.pod(name)["metadata"]["annotations"][DEVICES]
        return [f"gpu-{index}" for index in text.partition("IDX:")[2].rstrip(")").split(",")]


@asynccontextmanager
async def device_site() -> AsyncIterator[DeviceSite]:
    """Yield the site, and check at its end that no device was prepared for two Pods."""
    nodes = [SimNode(name, cpus=8, memory_mb=64_000, gres={"gpu": 4}) for name in ("n1", "n2")]
    async with simulated_cluster(DeviceSite, nodes=nodes, allocatable={one.name: {} for one in nodes}) as site:
        site.kube.rbac = shipped_rights("devices")
        site.dra = site.scheduler.dynamic_resources = DynamicResources(site.kube)
        site.dra.add_class(DRIVER, "example.com/gpu")
        for node in ("n1", "n2"):
            site.dra.publish(node, DRIVER, 4)
        site.config = CONFIG + MAP
        yield site
        assert site.dra.doubly == []
