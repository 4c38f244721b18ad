"""Compare taints and tolerations as kube-scheduler's TaintToleration and NodeUnschedulable filters do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.domain.views import NodeView, Taint, Toleration

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
"""The taint of a cordoned node, which counts before it is written too (`node_unschedulable.go`)."""

_KEEP_OFF = frozenset({"NoSchedule", "NoExecute"})
_OPERATORS = frozenset({"", "Equal", "Exists"})


def admits(node: NodeView, tolerations: Sequence[Toleration]) -> bool:
    """Return whether the tolerations cover every taint that keeps Pods off; `PreferNoSchedule` keeps none off."""
    if node.unschedulable and not tolerates(tolerations, UNSCHEDULABLE):
        return False
    return all(tolerates(tolerations, taint) for taint in node.taints if taint.effect in _KEEP_OFF)


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Return whether one of them covers the taint (`core/v1/toleration.go`, ToleratesTaint)."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def not_tolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return the taints that none of the tolerations covers."""
    given = tuple(tolerations)
    return tuple(taint for taint in taints if not tolerates(given, taint))


def known(toleration: Toleration) -> bool:
    """Return whether its operator means the same in every release (1.35 tries `Lt` and `Gt`)."""
    return toleration.operator in _OPERATORS


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False
