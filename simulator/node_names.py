"""Which Node a Slurm node is in a simulated cluster, and how anybody can tell."""

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
    """What says which Node a Slurm node is."""

    SAME = "same"
    """Both have one name."""

    LABEL = "label"
    """A label on the Node. Names are in use on both sides, each for another machine."""

    SLURMD = "slurmd"
    """Its slurmd runs in a Pod. Names as before."""


@dataclass(frozen=True, slots=True)
class NodeNames:
    """Names of machines on both sides. One that is not here has the same on both."""

    naming: NodeNaming = NodeNaming.SAME
    of_slurm: Mapping[str, str] = field(default_factory=dict)
    """Slurm name -> Kubernetes name."""

    def kube(self, slurm_node: str) -> str:
        """The Node that this Slurm node is."""
        return self.of_slurm.get(slurm_node, slurm_node)

    def slurm(self, node: str) -> str:
        """The Slurm node that this Node is."""
        return next((name for name, kube in self.of_slurm.items() if kube == node), node)

    def labels(self, slurm_node: str) -> dict[str, str]:
        """What its Node says."""
        return {SLURM_NODE: slurm_node} if self.naming is NodeNaming.LABEL else {}

    def slurmd(self, slurm_node: str) -> Json | None:
        """The Pod of its slurmd."""
        if self.naming is not NodeNaming.SLURMD:
            return None
        pod = a_pod(slurm_node, SLURMD_NAMESPACE, scheduler="default-scheduler", cpu="0", memory="0")
        pod["metadata"]["labels"] = dict(SLURMD_LABEL)
        pod["spec"]["nodeName"] = self.kube(slurm_node)
        return pod


def names_for(naming: NodeNaming, slurm_nodes: Sequence[str]) -> NodeNames:
    """Each Node has the name of the next Slurm node, unless they have the same."""
    if naming is NodeNaming.SAME:
        return NodeNames()
    turned = [*slurm_nodes[1:], *slurm_nodes[:1]]
    return NodeNames(naming, dict(zip(slurm_nodes, turned, strict=True)))
