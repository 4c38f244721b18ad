"""Parts of a site: Slurm's nodes and partitions, and the Kubernetes Nodes that stand beside them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.slurm_conf import Partition, SlurmNode

GPU_MODEL = "gpu.nvidia.com/model"
SLURM_NODE = "slurm-extender.io/slurm-node"


@dataclass(frozen=True, slots=True)
class KubeNode:
    """A Kubernetes Node; ``like`` is the Slurm node whose size it has."""

    name: str
    like: SlurmNode
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Topology:
    """Everything that is registered before the extender starts."""

    nodes: tuple[SlurmNode, ...]
    external_nodes: tuple[SlurmNode, ...]
    partitions: tuple[Partition, ...]
    kube_nodes: tuple[KubeNode, ...]
    slurm_config: Mapping[str, str] = field(default_factory=dict)
    slurm_files: Mapping[str, str] = field(default_factory=dict)


def one_node(node: SlurmNode) -> Topology:
    """Return one node with a slurmd, which Kubernetes knows by the same name, in partition `batch`."""
    return Topology(
        nodes=(node,),
        external_nodes=(),
        partitions=(Partition("batch", default=True),),
        kube_nodes=(KubeNode(node.name, node),),
        slurm_config={"KillWait": "10", "MinJobAge": "7200"},
    )


@dataclass(frozen=True, slots=True)
class Family:
    """Partitions of one kind of nodes: those with a slurmd, or external ones.

    ``main`` has ``nodes``, 64 CPUs each, and one node that Kubernetes does not know. ``tiny`` is one node of 4 CPUs.
    One node of 8 CPUs is shared by ``urgent``, whose jobs preempt those of ``preemptable`` at once and those of
    ``graceful`` after a warning of 40 s.
    """

    main: str
    tiny: str
    urgent: str
    preemptable: str
    graceful: str
    nodes: tuple[str, ...]
    tiny_node: str
    contested_node: str
    unmapped: str


def _family(prefix: str, count: int) -> Family:
    return Family(
        main=f"{prefix}batch",
        tiny=f"{prefix}tiny",
        urgent=f"{prefix}urgent",
        preemptable=f"{prefix}preemptable",
        graceful=f"{prefix}graceful",
        nodes=tuple(f"{prefix}node-{index}" for index in range(1, count + 1)),
        tiny_node=f"{prefix}small-1",
        contested_node=f"{prefix}contested-1",
        unmapped=f"{prefix}bare-1",
    )


WITH_SLURMD = _family("", 14)
EXTERNAL = _family("ext-", 14)
GRACE_TIME_S = 40
EVERYWHERE = "everywhere"
GPU_NODES = ("gpu-1", "gpu-2")
EVERY_CONSTRAINT = "tested"
"""A feature that all nodes of ``main`` have."""


def _slurm_nodes(family: Family) -> tuple[SlurmNode, ...]:
    return (
        *(SlurmNode(name, features=(EVERY_CONSTRAINT,)) for name in (*family.nodes, family.unmapped)),
        SlurmNode(family.tiny_node, cpus=4, memory_mb=16_000),
        SlurmNode(family.contested_node, cpus=8, memory_mb=32_000),
    )


def _partitions(family: Family, *, default: bool) -> tuple[Partition, ...]:
    contested = family.contested_node
    main = ",".join((*family.nodes, family.unmapped, *(GPU_NODES if default else ())))
    return (
        Partition(family.main, nodes=main, default=default),
        Partition(family.tiny, nodes=family.tiny_node),
        Partition(family.urgent, nodes=contested, priority_tier=10),
        Partition(family.preemptable, nodes=contested, preempt_mode="cancel"),
        Partition(family.graceful, nodes=contested, preempt_mode="cancel", grace_time_s=GRACE_TIME_S),
    )


def _kube_nodes(family: Family) -> list[KubeNode]:
    return [KubeNode(node.name, node) for node in _slurm_nodes(family) if node.name != family.unmapped]


def standard(release: str) -> Topology:
    """Return the topology of the tests: nodes with slurmd, GPUs among them, and from 26.05 on external ones too.

    The GPU nodes have other names in Kubernetes; there is a Node that Slurm does not know, and the other way round.
    """
    gpus = tuple(
        SlurmNode(name, cpus=128, memory_mb=1_000_000, gpus=8, gpu_type="h100", features=(EVERY_CONSTRAINT,))
        for name in GPU_NODES
    )
    has_external = tuple(int(part) for part in release.split(".")) >= (25, 5)
    external = _slurm_nodes(EXTERNAL) if has_external else ()
    beside = [KubeNode(f"kube-{node.name}", node, {SLURM_NODE: node.name, GPU_MODEL: "H100"}) for node in gpus]
    return Topology(
        nodes=(*_slurm_nodes(WITH_SLURMD), *gpus),
        external_nodes=external,
        partitions=(
            # With nodes that are made later.
            Partition(EVERYWHERE, nodes="ALL"),
            *_partitions(WITH_SLURMD, default=True),
            *(_partitions(EXTERNAL, default=False) if has_external else ()),
        ),
        kube_nodes=(
            *_kube_nodes(WITH_SLURMD),
            *beside,
            *(_kube_nodes(EXTERNAL) if has_external else ()),
            KubeNode("kube-only-1", SlurmNode("kube-only-1")),
        ),
        slurm_config={
            "KillWait": "10",
            # Ended jobs stay visible for the whole run: the tests count every job that was ever made.
            "MinJobAge": "7200",
            "MaxJobCount": "20000",
            "PreemptParameters": "send_user_signal",
            "Licenses": "matlab:10",
        },
    )


def small(release: str) -> Topology:
    """Return three nodes, for a user's first Pod."""
    del release
    nodes = tuple(SlurmNode(f"node-{index}") for index in (1, 2, 3))
    return Topology(
        nodes=nodes,
        external_nodes=(),
        partitions=(Partition("batch", default=True),),
        kube_nodes=tuple(KubeNode(node.name, node) for node in nodes),
        slurm_config={"KillWait": "10"},
    )


def slurm_name(kube_name: str) -> str:
    """Return the Slurm node that stands beside a Kubernetes Node of these topologies."""
    return kube_name.removeprefix("kube-")
