"""Map Slurm nodes to Nodes of the simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from extender.domain.wellknown import SLURM_NODE
from simulator.kube.objects import Json, a_pod

SLURMD_LABEL = {"app.kubernetes.io/name": "slurmd"}
SLURMD_NAMESPACE = "kube-system"
SLURMD_CONFIG = f"""
nodes: {{slurmdPods: {{namespace: {SLURMD_NAMESPACE}, labels: {{app.kubernetes.io/name: slurmd}}}}}}
"""


class NodeNaming(StrEnum):
    """A rule by which Slurm nodes are mapped to Nodes."""

    SAME = "same"
    """Both have the same name."""

    LABEL = "label"
    """By a label on the Node. The names of one side are used on the other side for other machines."""

    SLURMD = "slurmd"
    """By the Pod of the slurmd. Names differ as with `LABEL`."""


@dataclass(frozen=True, slots=True)
class NodeNames:
    """Names of machines on both sides; a machine that is not listed has the same name on both."""

    naming: NodeNaming = NodeNaming.SAME
    of_slurm: Mapping[str, str] = field(default_factory=dict)
    """Slurm name -> Kubernetes name."""

    def kube(self, slurm_node: str) -> str:
        """Return the name of the Node of a Slurm node."""
        return self.of_slurm.get(slurm_node, slurm_node)

    def slurm(self, node: str) -> str:
        """Return the Slurm node of a Node."""
        return next((name for name, kube in self.of_slurm.items() if kube == node), node)

    def labels(self, slurm_node: str) -> dict[str, str]:
        """Return the labels of its Node that name the Slurm node."""
        return {SLURM_NODE: slurm_node} if self.naming is NodeNaming.LABEL else {}

    def slurmd(self, slurm_node: str) -> Json | None:
        """Return the Pod of its slurmd, if it has one."""
        if self.naming is not NodeNaming.SLURMD:
            return None
        pod = a_pod(slurm_node, SLURMD_NAMESPACE, scheduler="default-scheduler", cpu="0", memory="0")
        pod["metadata"]["labels"] = dict(SLURMD_LABEL)
        pod["spec"]["nodeName"] = self.kube(slurm_node)
        return pod


def names_for(naming: NodeNaming, slurm_nodes: Sequence[str]) -> NodeNames:
    """Return the names of all nodes: each Node has the name of the next Slurm node, unless names are the same."""
    if naming is NodeNaming.SAME:
        return NodeNames()
    turned = [*slurm_nodes[1:], *slurm_nodes[:1]]
    return NodeNames(naming, dict(zip(slurm_nodes, turned, strict=True)))
