"""On which Slurm nodes a workload's Pods are: those that its job gave, whichever Nodes these are said to be by now.

Which Node is which may change while Pods run. A Pod stays on its machine then, and its job keeps its own node.
"""

from __future__ import annotations

from extender.domain.nodes.mapping import NodeMap
from extender.domain.placeholder import Placeholder


def slurm_nodes_of(p: Placeholder, node_map: NodeMap) -> frozenset[str]:
    """The Slurm nodes on which members of this workload run, or may run."""
    found: set[str] = set()
    for member in p.members:
        if not member.placed:
            continue
        given = p.slurm_node_of(member.ref.uid)
        node = member.node or p.node_of(member.ref.uid)
        if given and node == p.node_of(member.ref.uid):
            found.add(given)
        elif member.slurm_node and member.job_id is not None:
            found.add(member.slurm_node)
        else:
            found |= node_map.last_slurm([node])
    return frozenset(found) or frozenset(p.slurm_nodes if p.placed else ())


def renamed(p: Placeholder, node: str, node_map: NodeMap) -> str:
    """Return why this granted Node is not the one that Slurm gave, as is known now; "": it is."""
    if not (node_map.known and p.slurm_nodes) or node_map.slurm.get(node) in p.slurm_nodes:
        return ""
    now = node_map.slurm.get(node)
    what = f"is Slurm node {now} now" if now else "is no node of Slurm any more"
    return f"Node {node} was given as Slurm node {', '.join(p.slurm_nodes)}, and {what}."
