"""Decide how to change a node of Slurm so that it is as the Node requires (`external_nodes`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from extender.domain.cluster import SlurmNode
from extender.domain.nodes.external_nodes import DesiredNode, ExternalRules

WORTH = 0.01
"""Of the memory: a node that grew by less is not emptied for it. kubelet's figure differs a little after each boot."""


class Step(StrEnum):
    """Name a step for a node of Slurm."""

    NOTHING = "nothing"
    CREATE = "create"
    UPDATE = "update"
    RENEW = "renew"
    """Empty it, delete it, create it again."""

    DELETE = "delete"
    LEAVE = "leave"
    """It was not created by this extender."""


@dataclass(frozen=True, slots=True)
class ExternalNodeChange:
    """Hold a step and why, as a sentence; for `UPDATE` the keys of `DesiredNode` that differ."""

    step: Step
    text: str = ""
    keys: tuple[str, ...] = ()


NOTHING = ExternalNodeChange(Step.NOTHING)


def compare(want: DesiredNode | None, has: SlurmNode | None, rules: ExternalRules) -> ExternalNodeChange:
    """Return the step from `has` to `want`. A node that the extender registered has `registered_for`."""
    if has is None:
        return (
            NOTHING if want is None else ExternalNodeChange(Step.CREATE, f"Node {want.node} is not registered in Slurm")
        )
    if not has.registered_for:
        if want is None:
            return NOTHING
        return ExternalNodeChange(
            Step.LEAVE, f"Slurm node {has.name} exists, but this extender did not register it for Node {want.node}"
        )
    if want is None:
        return ExternalNodeChange(Step.DELETE, f"Node {has.registered_for} is to be unregistered")
    if has.registered_for != want.node:
        return ExternalNodeChange(
            Step.DELETE, f"{has.name} was Node {has.registered_for} and is to be Node {want.node}"
        )
    if want.ready and (why := _resized(want, has)):
        return ExternalNodeChange(Step.RENEW, f"Node {want.node} has {why}")
    moved = sorted(name for name in {*want.features} ^ {*has.features} if rules.in_a_node_set(name))
    if moved:
        return ExternalNodeChange(Step.RENEW, f"Node {want.node} is in other node sets: {', '.join(moved)}")
    differing = [
        key
        for key, same in (
            ("address", want.address == has.address),
            ("features", set(want.features) == set(has.features)),
            ("topology", not rules.topologies or _units(want.topology) == _units(has.topology)),
        )
        if not same
    ]
    if not differing:
        return NOTHING
    return ExternalNodeChange(Step.UPDATE, f"Node {want.node} has another {' and '.join(differing)}", tuple(differing))


def _resized(want: DesiredNode, has: SlurmNode) -> str:
    """Return the change of size in words; "": it is not worth emptying the node."""
    found = []
    if want.cpus != has.cpus:
        found.append(f"{want.cpus} CPUs instead of {has.cpus}")
    for name in sorted(want.gres.keys() | has.gres.keys()):
        now, was = want.gres.get(name, 0), has.gres.get(name, 0)
        found += [f"{now} {name} instead of {was}"] if now != was else []
    enough = has.memory_mb <= want.memory_mb <= has.memory_mb * (1 + WORTH)
    if want.memory_mb != has.memory_mb and (found or not enough):
        found.append(f"{want.memory_mb} MiB instead of {has.memory_mb}")
    return ", ".join(found)


def _units(topology: str) -> frozenset[str]:
    return frozenset(part.strip() for part in topology.split(",") if part.strip())
