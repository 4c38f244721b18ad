"""Find the Slurm nodes of a workload's Pods: those that its job gave, to whichever Nodes they map by now.

Which Node is which may change while Pods run. A Pod stays on its machine then, and its job keeps its own node.
"""

from __future__ import annotations

from collections.abc import Iterator

from extender.domain.nodes.mapping import NodeMap
from extender.domain.placeholder import Member, Placeholder


def slurm_nodes_of(p: Placeholder, node_map: NodeMap) -> frozenset[str]:
    """Return the Slurm nodes on which members of this workload run, or may run."""
    found = {node for _, nodes in placed_members(p, node_map) for node in nodes}
    return frozenset(found) or frozenset(p.slurm_nodes if p.placed else ())


def is_on(p: Placeholder, slurm_node: str, node_map: NodeMap) -> bool:
    """Return whether a member is on this Slurm node, or may be: for some it is not known on which they are."""
    each = [nodes for _, nodes in placed_members(p, node_map)]
    return any(slurm_node in nodes for nodes in each) or (slurm_node in p.slurm_nodes and not all(each))


def placed_members(p: Placeholder, node_map: NodeMap) -> Iterator[tuple[Member, frozenset[str]]]:
    """Yield each member that is on a Node with its Slurm nodes, in time proportional to the members."""
    allocated = dict(p.allocation)
    for slot, member in p.by_slot:
        if member.placed:
            given, node = p.slurm_node_of_slot(slot), allocated.get(member.ref.uid, "")
            yield member, _slurm_nodes(member, given, node, node_map)


def slurm_nodes_of_member(p: Placeholder, member: Member, node_map: NodeMap) -> frozenset[str]:
    """Return the Slurm nodes on which this member runs, or may run; none for a member that is on no Node."""
    if not member.placed:
        return frozenset()
    uid = member.ref.uid
    return _slurm_nodes(member, p.slurm_node_of(uid), p.node_of(uid), node_map)


def _slurm_nodes(member: Member, given: str, allocated: str, node_map: NodeMap) -> frozenset[str]:
    """Return the same for a member whose slot has the Slurm node `given`, and which got the Node `allocated`."""
    node = member.node or allocated
    if given and node == allocated:
        return frozenset({given})
    if member.slurm_node and member.job_id is not None:
        return frozenset({member.slurm_node})
    return node_map.last_slurm([node])


def pods_on(p: Placeholder, slurm_node: str, node_map: NodeMap) -> str:
    """Return the names of the members on this Slurm node, for users; of all of them where that is not known."""
    here = [member.ref.full_name for member, nodes in placed_members(p, node_map) if slurm_node in nodes]
    return ", ".join(here) or p.pod_names


def renamed(p: Placeholder, node: str, node_map: NodeMap) -> str:
    """Return why this granted Node is not the allocated one by the present mapping; "": it is."""
    if not (node_map.known and p.slurm_nodes) or node_map.slurm.get(node) in p.slurm_nodes:
        return ""
    now = node_map.slurm.get(node)
    what = f"now maps to Slurm node {now}" if now else "now maps to no Slurm node"
    return f"Node {node} was allocated as Slurm node {', '.join(p.slurm_nodes)}, and {what}."
