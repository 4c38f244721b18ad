"""Real kubelets with devices that a driver publishes and prepares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.devices import API, DRIVER, GRES, MAP, grant_devices
from lab.dra_example import dra_example
from lab.kubelet_site import KubeletSite
from lab.slurm_conf import Partition, SlurmNode
from lab.topology import KubeNode, Topology


@contextmanager
def device_nodes(
    release: str, names: Sequence[str], each: int, config: Mapping[str, dict[str, Any]], workdir: Path
) -> Iterator[KubeletSite]:
    """Run real nodes with `each` devices, in one partition. `config`: further settings of the extender."""
    nodes = tuple(SlurmNode(name, cpus=16, memory_mb=16_000, gpus=each, gpu_type="h100") for name in names)
    topology = Topology(
        nodes=nodes,
        external_nodes=(),
        partitions=(Partition("batch", default=True),),
        kube_nodes=tuple(KubeNode(node.name, node) for node in nodes),
        slurm_config={"KillWait": "10", "MinJobAge": "7200"},
    )
    config = {"slurm": {"killWait": "10s", "defaultPartition": "batch"}, **config}
    with KubeletSite(release, topology=topology, real=tuple(names), config=config, workdir=workdir) as found:
        grant_devices(found)
        for name in names:
            dra_example(found.nodes[name], found.kube.kubeconfig, each).start()
        found.wait_for(lambda: published(found) == set(names), "the drivers have published their devices")
        found.reconfigure(GRES, more=MAP)
        yield found


def published(site: KubeletSite) -> set[str]:
    """Return the Nodes with ResourceSlices of the driver."""
    slices = site.kube.api("GET", f"{API}/resourceslices")[1]["items"]
    return {one["spec"]["nodeName"] for one in slices if one["spec"]["driver"] == DRIVER}
