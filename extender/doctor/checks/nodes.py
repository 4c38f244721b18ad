"""Which Node is which node of Slurm, and are there any pairs?"""

from __future__ import annotations

from collections.abc import Iterator

from extender.doctor.finding import Finding, ok, warning, wrong
from extender.domain.nodes.mapping import NodeMap

CHECK = "nodes"
MOST = 5
"""Names that a line lists."""


def nodes(found: NodeMap, kubernetes: int, slurm: int) -> Iterator[Finding]:
    """`kubernetes` and `slurm` are how many nodes each side has."""
    for problem in found.problems:
        yield wrong(CHECK, problem, "no Pod is placed there until then; see the label slurm-extender.io/slurm-node")
    if not found.kubernetes:
        yield wrong(
            CHECK,
            f"none of {kubernetes} Nodes is one of {slurm} nodes of Slurm",
            "give Nodes the label slurm-extender.io/slurm-node of its name in Slurm, or see nodes.slurmdPods, "
            "nodes.byName and nodes.external (docs/nodes.md)",
        )
        return
    pairs = f"{len(found.kubernetes)} pairs of {kubernetes} Nodes and {slurm} nodes of Slurm"
    if found.without_kubernetes and len(found.without_kubernetes) >= len(found.kubernetes):
        yield warning(
            CHECK,
            f"{pairs}; no Node is {_some(found.without_kubernetes)}",
            "jobs are kept off those; where they are Nodes, label them with slurm-extender.io/slurm-node",
        )
    else:
        yield ok(CHECK, pairs)


def _some(names: tuple[str, ...]) -> str:
    more = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {more} more" if more > 0 else "")
