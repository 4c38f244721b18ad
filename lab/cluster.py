"""All together: one Slurm, one Kubernetes, and a Kubernetes Node for every Slurm node."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.build_kubernetes import newest_minor
from lab.credentials import User
from lab.kube import Kubernetes
from lab.managed_service import ManagedService
from lab.process import Daemon
from lab.slurm import DEFAULT_PARTITIONS, Partition, Slurm, SlurmNode

__all__ = ["Kubernetes", "Lab", "LabOptions", "Partition", "Slurm", "SlurmNode", "User"]


def _three_nodes() -> tuple[SlurmNode, ...]:
    return tuple(SlurmNode(f"node-{index}", gpus=8, gpu_type="h100") for index in (1, 2, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions:
    """Describe the parts of a lab; the fields are those of :class:`lab.slurm.Slurm` and :class:`lab.kube.Kubernetes`.

    ``scheduler_config`` starts a kube-scheduler with that KubeSchedulerConfiguration; None starts none.
    """

    slurm_release: str = "24.11"
    nodes: tuple[SlurmNode, ...] = field(default_factory=_three_nodes)
    external_nodes: tuple[SlurmNode, ...] = ()
    partitions: tuple[Partition, ...] = DEFAULT_PARTITIONS
    slurm_config: Mapping[str, str] = field(default_factory=dict)
    slurm_files: Mapping[str, str] = field(default_factory=dict)
    kubernetes_version: str = newest_minor()
    users: tuple[User, ...] = ()
    controllers: bool = True
    audit: bool = False
    feature_gates: str = ""
    scheduler_config: str | None = None
    scheduler_feature_gates: str = ""
    workdir: Path | None = None


class Lab(ManagedService):
    """Slurm and Kubernetes side by side, up between ``with`` and its end; every Node is Ready when it begins."""

    slurm: Slurm
    kube: Kubernetes
    scheduler: Daemon | None

    def __init__(self, options: LabOptions | None = None) -> None:
        super().__init__()
        self.options = options or LabOptions()
        self.scheduler = None

    def _start(self) -> None:
        options = self.options
        self.kube = self._stack.enter_context(
            Kubernetes(
                version=options.kubernetes_version,
                users=options.users,
                controllers=options.controllers,
                audit=options.audit,
                feature_gates=options.feature_gates,
                workdir=options.workdir,
            )
        )
        self.slurm = self._stack.enter_context(
            Slurm(
                release=options.slurm_release,
                nodes=options.nodes,
                external_nodes=options.external_nodes,
                partitions=options.partitions,
                config=options.slurm_config,
                files=options.slurm_files,
                workdir=options.workdir,
            )
        )
        for node in (*options.nodes, *options.external_nodes):
            labels = {"nvidia.com/gpu.product": node.gpu_type} if node.gpu_type else {}
            self.kube.add_node(node.name, cpus=node.cpus, memory=f"{node.memory_mb}Mi", gpus=node.gpus, labels=labels)
        self.kube.wait_nodes_ready()
        if options.scheduler_config is not None:
            self.scheduler = self.kube.start_scheduler(
                options.scheduler_config, feature_gates=options.scheduler_feature_gates
            )
