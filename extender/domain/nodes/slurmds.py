"""Find the Pods that run a slurmd, the Slurm node of each by its name, and its Node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from extender.domain.views import PodView


@dataclass(frozen=True, slots=True)
class SlurmdSelector:
    """Select the Pods that run a slurmd: with all these labels, in one namespace; no labels: none.

    In any other namespace, an author of Pods could pair a Slurm node with a Node of their choice.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""

    def selects(self, pod: PodView) -> bool:
        """Return whether this Pod runs a slurmd."""
        if not self.labels or self.namespace != pod.namespace:
            return False
        return all(pod.labels.get(key) == value for key, value in self.labels.items())


def slurmd_nodes(pods: Iterable[PodView]) -> dict[str, frozenset[str]]:
    """Return Slurm name -> the Nodes of the Pods that run its slurmd. More than one of them is a dispute."""
    found: dict[str, frozenset[str]] = {}
    for pod in pods:
        if pod.node_name and not pod.finished:
            found[pod.name] = found.get(pod.name, frozenset()) | {pod.node_name}
    return found
