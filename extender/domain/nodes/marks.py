"""What we write on Nodes: a condition and an annotation that say how Slurm's node is, and, where the site wants them,
taints and a cordon.

Every mark says whose it is, by the name of our scheduler, and only our own are changed or taken away. What carries a
mark of any extender is no cause of a drain (`causes`), and no drain of an extender is a cause of a mark
(`unavailable`): so nothing that one side is told for the other's sake comes back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from extender.domain.nodes.unavailable import Unavailable
from extender.domain.placing.taints import UNSCHEDULABLE, tolerates
from extender.domain.views import NodeView, PodView, Taint
from extender.domain.wellknown import (
    CORDONED_BY,
    MANAGED_TAINT,
    NATIVE_JOB_TAINT,
    NATIVE_JOBS,
    OWN_PREFIX,
    SLURM_AVAILABLE_CONDITION,
    UNAVAILABLE_REASON,
    UNAVAILABLE_TAINT,
    UNCORDONED_MANUALLY,
)

AVAILABLE = "SlurmAvailable"
"""Reason of the condition when it is False."""

LONGEST_JOBS = 50
"""Jobs that are named on a Node; the others are found again by looking at Slurm's jobs."""

_JOB = re.compile(r"(?<![^,])[0-9]{1,10}(?![^,])", re.ASCII)
"""One of them, between commas. Slurm's ids have 32 bits."""

_SAID = re.compile(r"\S+: Slurm node ")
"""How the words of an extender begin, whichever it is: its name, and those of `unavailable`."""

_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""What the value of a taint may be, as of a label (`apimachinery/pkg/util/validation`)."""


@dataclass(frozen=True, slots=True)
class MarkRules:
    """What is written besides condition and annotation. Effects of taints; "" is none."""

    owner: str
    """Our name in every mark (`owner_of_marks`)."""

    taint: str = ""
    """While Slurm gives the node nothing new."""

    cordon: bool = False
    managed: str = ""
    """On every Node that is a node of Slurm."""

    lock: str = ""
    """While a job runs there that is nobody's placeholder."""

    @property
    def tolerated(self) -> tuple[Taint, ...]:
        """The taints that Pods of ours have to tolerate."""
        wanted = ((MANAGED_TAINT, self.managed), (NATIVE_JOB_TAINT, self.lock))
        return tuple(Taint(key, effect, self.owner) for key, effect in wanted if effect)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """How it is with one Node. Without a node of Slurm everything is as by default."""

    managed: bool = False
    unavailable: Unavailable | None = None
    jobs: tuple[int, ...] = ()
    """Jobs there that are nobody's placeholder."""

    slurmds: tuple[PodView, ...] | None = None
    """The Pods that run its slurmd, or did last; `None`: slurmds do not run in Pods here."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the condition and the annotation shall say; `note` `None`: no annotation."""

    unavailable: bool
    reason: str
    text: str
    note: str | None
    turned: bool
    """The status of the condition is another than before."""


@dataclass(frozen=True, slots=True)
class NodePatch:
    """What is to be other than it is, on the Node as it was looked at. `None` in a map: taken away."""

    add: tuple[Taint, ...] = ()
    remove: tuple[Taint, ...] = ()
    unschedulable: bool | None = None
    annotations: Mapping[str, str | None] = field(default_factory=dict)


def owner_of_marks(scheduler: str, drainer: str) -> str:
    """The name of the scheduler, where a taint can have that as its value, else what tells our drains from others."""
    return scheduler if _VALUE.fullmatch(scheduler) else drainer


def cordoned_by_others(node: NodeView) -> bool:
    """The Node is cordoned, and not by an extender."""
    return node.unschedulable and not node.annotations.get(CORDONED_BY)


def is_mark(name: str) -> bool:
    """Whether a taint or a condition of this name is an extender's, or says no more than a cordon does."""
    return name.startswith(OWN_PREFIX) or name == UNSCHEDULABLE.key


def marked(node: NodeView, owner: str) -> bool:
    """Whether there is anything of ours on a Node."""
    return (
        any(taint.key.startswith(OWN_PREFIX) and taint.value == owner for taint in node.taints)
        or owner in (node.annotations.get(CORDONED_BY), node.annotations.get(UNCORDONED_MANUALLY))
        or node.annotations.get(UNAVAILABLE_REASON, "").startswith(f"{owner}: ")
        or NATIVE_JOBS in node.annotations
    )


def report(node: NodeView, standing: NodeStatus, rules: MarkRules) -> Report | None:
    """What is to be written, if anything. A Node that never was unavailable is not written to."""
    said, status = node.annotations.get(UNAVAILABLE_REASON), node.conditions.get(SLURM_AVAILABLE_CONDITION)
    mine = f"{rules.owner}: "
    if said is not None and not said.startswith(mine) and _SAID.match(said):
        return None  # another extender speaks there
    why = standing.unavailable
    if why is not None:
        note = mine + why.text
        if said == note and status == "False":
            return None
        return Report(True, why.reason, why.text, note, turned=status != "False")
    if said is None and status != "False":
        return None
    return Report(False, AVAILABLE, "Slurm may start jobs there.", None, turned=status != "True")


def change(node: NodeView, standing: NodeStatus, rules: MarkRules) -> NodePatch | None:
    """What is to be done about taints and the cordon; `None`: nothing."""
    add, remove = _taints(node, standing, rules)
    unschedulable, annotations = _cordon(node, standing, rules)
    annotations |= _native(node, standing, rules)
    if not (add or remove or annotations or unschedulable is not None):
        return None
    return NodePatch(add, remove, unschedulable, annotations)


def without_tolerance(standing: NodeStatus, taint: Taint) -> tuple[str, ...]:
    """The Pods of its slurmd that the taint would keep off their own Node, or drive from it."""
    pods = standing.slurmds or ()
    return tuple(pod.full_name for pod in pods if not tolerates(pod.tolerations, taint))


def wanted_taints(standing: NodeStatus, rules: MarkRules) -> tuple[Taint, ...]:
    """The taints that this Node shall have."""
    wanted = (
        (MANAGED_TAINT, rules.managed, standing.managed),
        (UNAVAILABLE_TAINT, rules.taint, _keeps_off(standing)),
        (NATIVE_JOB_TAINT, rules.lock, bool(standing.jobs)),
    )
    return tuple(Taint(key, effect, rules.owner) for key, effect, so in wanted if effect and so)


def _keeps_off(standing: NodeStatus) -> bool:
    """Whether Pods are to be kept off: never because of a slurmd that may be waiting for a Pod of its own to come."""
    why = standing.unavailable
    return why is not None and (why.said or standing.slurmds is None)


def _taints(node: NodeView, standing: NodeStatus, rules: MarkRules) -> tuple[tuple[Taint, ...], tuple[Taint, ...]]:
    wanted = [taint for taint in wanted_taints(standing, rules) if _bearable(standing, taint)]
    keys = {MANAGED_TAINT, UNAVAILABLE_TAINT, NATIVE_JOB_TAINT}
    remove = [
        taint for taint in node.taints if taint.key in keys and taint.value == rules.owner and taint not in wanted
    ]
    # There is one taint of a key and an effect (Kubernetes `core/validation.go`): another extender's stands for ours.
    there = {(taint.key, taint.effect) for taint in node.taints}
    return tuple(taint for taint in wanted if (taint.key, taint.effect) not in there), tuple(remove)


def _bearable(standing: NodeStatus, taint: Taint) -> bool:
    """No slurmd is kept off its Node: its node would go DOWN, or its next Pod never come."""
    return standing.slurmds is None or bool(standing.slurmds and not without_tolerance(standing, taint))


def _cordon(node: NodeView, standing: NodeStatus, rules: MarkRules) -> tuple[bool | None, dict[str, str | None]]:
    """A cordon of ours bears our name in an annotation, written in the same request. One without it is a person's.

    Our annotation on a Node that is not cordoned: a person has lifted the cordon. Another annotation remembers that
    until Slurm's node is well again, so that the cordon is not taken for ours when the person cordons the Node later.
    """
    mark, overridden = node.annotations.get(CORDONED_BY), node.annotations.get(UNCORDONED_MANUALLY)
    wanted = rules.cordon and _keeps_off(standing)
    if mark is None and overridden is None:
        return (True, {CORDONED_BY: rules.owner}) if wanted and not node.unschedulable else (None, {})
    if rules.owner not in (mark, overridden):
        return None, {}
    if wanted:
        lifted = mark == rules.owner and not node.unschedulable
        return None, {CORDONED_BY: None, UNCORDONED_MANUALLY: rules.owner} if lifted else {}
    ours = node.unschedulable and mark == rules.owner
    undone: dict[str, str | None] = {CORDONED_BY: None} if mark == rules.owner else {}
    undone |= {UNCORDONED_MANUALLY: None} if overridden == rules.owner else {}
    return (False if ours else None), undone


def _native(node: NodeView, standing: NodeStatus, rules: MarkRules) -> dict[str, str | None]:
    """Which jobs lock the Node, so that a start knows which to ask Slurm about."""
    jobs = standing.jobs[:LONGEST_JOBS] if rules.lock else ()
    wanted = f"{rules.owner}: {','.join(map(str, jobs))}" if jobs else None
    said = node.annotations.get(NATIVE_JOBS)
    if said == wanted or (said is not None and not said.startswith(f"{rules.owner}: ")):
        return {}
    return {NATIVE_JOBS: wanted}


def native_jobs_in(node: NodeView, owner: str) -> tuple[int, ...]:
    """The jobs for which we locked a Node; what else somebody wrote there is passed over."""
    mine, _, jobs = node.annotations.get(NATIVE_JOBS, "").partition(": ")
    found = (int(job[0]) for job in _JOB.finditer(jobs)) if mine == owner else iter(())
    return tuple(islice(found, LONGEST_JOBS))
