"""Read the evidence of fences on Nodes as the extender reads it, with its key or without."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from extender.domain.nodes.fence_evidence import AHEAD_S, FencedNodes, FenceProofs, FenceScript, stated_times
from extender.domain.views import NodeView
from extender.domain.wellknown import FENCE_EVIDENCE


@dataclass(frozen=True, slots=True)
class FenceReader:
    """Read annotations by `owner`. `proofs` `None`: a proof cannot be verified, because of `trouble`."""

    owner: str
    lifetime_s: float
    proofs: FenceProofs | None = None
    trouble: str = ""

    def proven(
        self, pairs: Mapping[str, str], nodes: Mapping[str, NodeView], external: Collection[str], now: float
    ) -> frozenset[str]:
        """Return the Slurm nodes with evidence of a fence that counts for them.

        `pairs`: the Node of each Slurm node. `external`: those without slurmd. `now`: seconds since the epoch.
        """
        called: dict[FenceScript, set[str]] = {script: set() for script in FenceScript}
        for slurm_node, name in pairs.items():
            for script, at in self._calls(nodes.get(name), slurm_node).items():
                if now - self.lifetime_s < at <= now + AHEAD_S:
                    called[script].add(slurm_node)
        fenced = FencedNodes(*(frozenset(called[script]) for script in FenceScript))
        return frozenset(pairs) - fenced.unfenced(pairs, external)

    def _calls(self, node: NodeView | None, slurm_node: str) -> Mapping[FenceScript, int]:
        if node is None:
            return {}
        text = node.annotations.get(FENCE_EVIDENCE, "")
        if self.proofs is None:
            return stated_times(text, self.owner)
        return self.proofs.read(text, node.uid, slurm_node)
