"""Find the Slurm nodes of a workload's Pods: those that its job gave, to whichever Nodes they map by now.

Which Node is which may change while Pods run. A Pod stays on its machine then, and its job keeps its own node.
"""

from __future__ import annotations

from extender.domain.nodes.mapping import NodeMap
from extender.domain.placeholder import Member, Placeholder


def slurm_nodes_of(p: Placeholder, node_map: NodeMap) -> frozenset[str]:
    """Return the Slurm nodes on which members of this workload run, or may run."""
    found = {node for member in p.members for node in slurm_nodes_of_member(p, member, node_map)}
    return frozenset(found) or frozenset(p.slurm_nodes if p.placed else ())


def slurm_nodes_of_member(p: Placeholder, member: Member, node_map: NodeMap) -> frozenset[str]:
    """Return the Slurm nodes on which this member runs, or may run; none for a member that is on no Node."""
    if not member.placed:
        return frozenset()
    given = p.slurm_node_of(member.ref.uid)
    node = member.node or p.node_of(member.ref.uid)
    if given and node == p.node_of(member.ref.uid):
        return frozenset({given})
    if member.slurm_node and member.job_id is not None:
        return frozenset({member.slurm_node})
    return node_map.last_slurm([node])


def pods_on(p: Placeholder, slurm_node: str, node_map: NodeMap) -> str:
    """Return the names of the members on this Slurm node, for users; of all of them where that is not known."""
    here = [one.ref.full_name for one in p.members if slurm_node in slurm_nodes_of_member(p, one, node_map)]
    return ", ".join(here) or p.pod_names


def renamed(p: Placeholder, node: str, node_map: NodeMap) -> str:
    """Return why this granted Node is not the allocated one by the present mapping; "": it is."""
    if not (node_map.known and p.slurm_nodes) or node_map.slurm.get(node) in p.slurm_nodes:
        return ""
    now = node_map.slurm.get(node)
    what = f"now maps to Slurm node {now}" if now else "now maps to no Slurm node"
    return f"Node {node} was allocated as Slurm node {', '.join(p.slurm_nodes)}, and {what}."
