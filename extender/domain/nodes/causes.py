"""Find the drain reasons that follow from the state of a Node, as far as the site's rules count them.

Marks that an extender wrote there because of Slurm never count (`marks`): otherwise the extender's own mark would cause
the drain that causes the mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from extender.domain.nodes.drain_reasons import may_be_cut, own_reason, quoted
from extender.domain.nodes.marks import cordoned_by_others, is_mark
from extender.domain.views import NodeView, PodView
from extender.domain.wellknown import DRAIN_REASON

_DELETED = re.compile(r"Node (\S+) was deleted")


@dataclass(frozen=True, slots=True)
class TaintRule:
    """Select taints with this key; "" for value or effect is any."""

    key: str
    value: str = ""
    effect: str = ""

    @property
    def text(self) -> str:
        """Return it as `kubectl taint` writes it."""
        return f"{self.key}{f'={self.value}' if self.value else ''}{f':{self.effect}' if self.effect else ''}"


@dataclass(frozen=True, slots=True)
class DrainRules:
    """Hold the rules. `not_ready_after`: seconds for which a Node may be not Ready; `None`: without a limit."""

    cordoned: bool = True
    not_ready_after: float | None = 30.0
    deleted: bool = True
    slurmd: bool = True
    taints: tuple[TaintRule, ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()
    """Type and status."""

    @property
    def some(self) -> bool:
        """Return whether any rule is set."""
        return self != DrainRules(False, None, False, False)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Hold the state of one Node. `node` `None`: it was deleted."""

    name: str
    node: NodeView | None
    not_ready_s: float | None = None
    """Seconds since it became not Ready; `None`: it is Ready."""

    slurmds: tuple[PodView, ...] = ()
    """The Pods that run the slurmd of its Slurm node."""

    had_slurmd: str = ""
    """An earlier one of these Pods."""


def causes(facts: NodeFacts, rules: DrainRules) -> dict[str, str]:
    """Return a sentence by kind of cause; empty if the node may be used."""
    found: dict[str, str] = {}
    node, name = facts.node, facts.name
    if node is None:
        if rules.deleted:
            found["deleted"] = f"Node {name} was deleted"
    else:
        if rules.cordoned and cordoned_by_others(node):
            found["cordoned"] = f"Node {name} is cordoned{quoted(node.annotations.get(DRAIN_REASON, ''))}"
        allowed_s, not_ready_s = rules.not_ready_after, facts.not_ready_s
        if allowed_s is not None and not_ready_s is not None and not_ready_s >= allowed_s:
            found["not ready"] = f"Node {name} is not Ready"
        for rule in rules.taints:
            if _tainted(node, rule):
                found[f"taint {rule.text}"] = f"Node {name} has the taint {rule.text}"
        for kind, status in rules.conditions:
            if node.conditions.get(kind) == status and not is_mark(kind):
                found[f"condition {kind}"] = f"Node {name} has the condition {kind}={status}"
    if rules.slurmd and (why := _slurmd(facts.slurmds, facts.had_slurmd)):
        found["slurmd"] = why
    return found


def deleted_in(reason: str) -> str:
    """Return the Node whose deletion the reason of an extender's drain names; "": none."""
    found = _DELETED.search(own_reason(reason))
    return found[1] if found else ""


def may_say_not_ready(reason: str) -> bool:
    """Return whether the reason of an extender's drain names a Node that is not Ready, or may have named one uncut."""
    return "is not Ready" in own_reason(reason) or may_be_cut(reason)


def _tainted(node: NodeView, rule: TaintRule) -> bool:
    return not is_mark(rule.key) and any(
        taint.key == rule.key and rule.value in {"", taint.value} and rule.effect in {"", taint.effect}
        for taint in node.taints
    )


def _slurmd(pods: Iterable[PodView], had: str) -> str:
    there = sorted((pod for pod in pods if not pod.finished), key=lambda pod: pod.full_name)
    if any(pod.ready and pod.deleted_at is None for pod in there):
        return ""
    if not there:
        return f"its slurmd Pod {had} is gone" if had else ""
    pod = there[0]
    return f"its slurmd Pod {pod.full_name} {'is ending' if pod.deleted_at is not None else 'is not Ready'}"
