"""Compute the marks on Nodes: a condition and an annotation with the state of Slurm's node, and optional taints and a
cordon.

Every mark names its extender by the name of its scheduler, and an extender changes only its own marks. A mark of any
extender is no drain reason (`causes`), and no drain of an extender is a reason for a mark (`unavailable`): otherwise
both would keep each other alive.
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
"""Jobs that are named on a Node; a restarted extender finds the others in Slurm's list of jobs."""

_JOB = re.compile(r"(?<![^,])[0-9]{1,10}(?![^,])", re.ASCII)
"""One of them, between commas. Slurm's ids have 32 bits."""

_SAID = re.compile(r"\S+: Slurm node ")
"""The beginnings of the text of any extender: its name, and the texts of `unavailable`."""

_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""Valid values of a taint, as of a label (`apimachinery/pkg/util/validation`)."""


@dataclass(frozen=True, slots=True)
class MarkRules:
    """Hold the marks besides condition and annotation. Effects of taints; "" is none."""

    owner: str
    """The extender's name in every mark (`owner_of_marks`)."""

    taint: str = ""
    """While Slurm gives the node nothing new."""

    cordon: bool = False
    managed: str = ""
    """On every Node that is a node of Slurm."""

    lock: str = ""
    """While a native job runs there."""

    @property
    def tolerated(self) -> tuple[Taint, ...]:
        """Return the taints that Pods of the extender's schedulers have to tolerate."""
        wanted = ((MANAGED_TAINT, self.managed), (NATIVE_JOB_TAINT, self.lock))
        return tuple(Taint(key, effect, self.owner) for key, effect in wanted if effect)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """Hold the state of one Node's node in Slurm. Without one all fields have their defaults."""

    managed: bool = False
    unavailable: Unavailable | None = None
    jobs: tuple[int, ...] = ()
    """Native jobs there."""

    slurmds: tuple[PodView, ...] | None = None
    """The Pods that run its slurmd, or ran it last; `None`: slurmds do not run in Pods here."""


@dataclass(frozen=True, slots=True)
class Report:
    """Hold the condition and the annotation to write; `note` `None`: no annotation."""

    unavailable: bool
    reason: str
    text: str
    note: str | None
    turned: bool
    """The status of the condition changes."""


@dataclass(frozen=True, slots=True)
class NodePatch:
    """Hold the changes to the Node as it was read. `None` in a map: removed."""

    add: tuple[Taint, ...] = ()
    remove: tuple[Taint, ...] = ()
    unschedulable: bool | None = None
    annotations: Mapping[str, str | None] = field(default_factory=dict)


def owner_of_marks(scheduler: str, drainer: str) -> str:
    """Return the name of the scheduler if it is a valid value of a taint, else `drainer`."""
    return scheduler if _VALUE.fullmatch(scheduler) else drainer


def cordoned_by_others(node: NodeView) -> bool:
    """Return whether the Node is cordoned, and not by an extender."""
    return node.unschedulable and not node.annotations.get(CORDONED_BY)


def is_mark(name: str) -> bool:
    """Return whether a taint or condition of this name is an extender's, or only repeats a cordon."""
    return name.startswith(OWN_PREFIX) or name == UNSCHEDULABLE.key


def marked(node: NodeView, owner: str) -> bool:
    """Return whether the extender has any mark on a Node."""
    return (
        any(taint.key.startswith(OWN_PREFIX) and taint.value == owner for taint in node.taints)
        or owner in (node.annotations.get(CORDONED_BY), node.annotations.get(UNCORDONED_MANUALLY))
        or node.annotations.get(UNAVAILABLE_REASON, "").startswith(f"{owner}: ")
        or NATIVE_JOBS in node.annotations
    )


def report(node: NodeView, standing: NodeStatus, rules: MarkRules) -> Report | None:
    """Return the condition and annotation to write; `None`: none. A Node that never was unavailable gets none."""
    written, status = node.annotations.get(UNAVAILABLE_REASON), node.conditions.get(SLURM_AVAILABLE_CONDITION)
    prefix = f"{rules.owner}: "
    if written is not None and not written.startswith(prefix) and _SAID.match(written):
        return None  # the marks are another extender's
    why = standing.unavailable
    if why is not None:
        note = prefix + why.text
        if written == note and status == "False":
            return None
        return Report(True, why.reason, why.text, note, turned=status != "False")
    if written is None and status != "False":
        return None
    return Report(False, AVAILABLE, "Slurm may start jobs there.", None, turned=status != "True")


def change(node: NodeView, standing: NodeStatus, rules: MarkRules) -> NodePatch | None:
    """Return the changes of taints and the cordon; `None`: none."""
    add, remove = _taints(node, standing, rules)
    unschedulable, annotations = _cordon(node, standing, rules)
    annotations |= _native(node, standing, rules)
    if not (add or remove or annotations or unschedulable is not None):
        return None
    return NodePatch(add, remove, unschedulable, annotations)


def without_tolerance(standing: NodeStatus, taint: Taint) -> tuple[str, ...]:
    """Return the Pods of its slurmd that the taint would keep off their own Node, or evict from it."""
    pods = standing.slurmds or ()
    return tuple(pod.full_name for pod in pods if not tolerates(pod.tolerations, taint))


def wanted_taints(standing: NodeStatus, rules: MarkRules) -> tuple[Taint, ...]:
    """Return the taints that this Node has to have."""
    wanted = (
        (MANAGED_TAINT, rules.managed, standing.managed),
        (UNAVAILABLE_TAINT, rules.taint, _keeps_off(standing)),
        (NATIVE_JOB_TAINT, rules.lock, bool(standing.jobs)),
    )
    return tuple(Taint(key, effect, rules.owner) for key, effect, so in wanted if effect and so)


def _keeps_off(standing: NodeStatus) -> bool:
    """Return whether to keep Pods off: never because of a slurmd, which may be waiting for its own next Pod."""
    why = standing.unavailable
    return why is not None and (why.manual or standing.slurmds is None)


def _taints(node: NodeView, standing: NodeStatus, rules: MarkRules) -> tuple[tuple[Taint, ...], tuple[Taint, ...]]:
    wanted = [taint for taint in wanted_taints(standing, rules) if _bearable(standing, taint)]
    keys = {MANAGED_TAINT, UNAVAILABLE_TAINT, NATIVE_JOB_TAINT}
    remove = [
        taint for taint in node.taints if taint.key in keys and taint.value == rules.owner and taint not in wanted
    ]
    # A Node has one taint per key and effect (Kubernetes `core/validation.go`): another extender's serves for both.
    there = {(taint.key, taint.effect) for taint in node.taints}
    return tuple(taint for taint in wanted if (taint.key, taint.effect) not in there), tuple(remove)


def _bearable(standing: NodeStatus, taint: Taint) -> bool:
    """Return whether the taint keeps no slurmd off its Node: its node would go DOWN, or its next Pod never start."""
    return standing.slurmds is None or bool(standing.slurmds and not without_tolerance(standing, taint))


def _cordon(node: NodeView, standing: NodeStatus, rules: MarkRules) -> tuple[bool | None, dict[str, str | None]]:
    """Return the changes of the cordon and its annotations.

    The extender's cordon has its name in an annotation, written in the same request; one without it is a user's. The
    annotation on a Node that is not cordoned: a user lifted the cordon. Another annotation records that until Slurm's
    node is available, so that a later cordon by a user is not taken for the extender's.
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
    own = node.unschedulable and mark == rules.owner
    undone: dict[str, str | None] = {CORDONED_BY: None} if mark == rules.owner else {}
    undone |= {UNCORDONED_MANUALLY: None} if overridden == rules.owner else {}
    return (False if own else None), undone


def _native(node: NodeView, standing: NodeStatus, rules: MarkRules) -> dict[str, str | None]:
    """Return the annotation with the jobs that lock the Node: a restarted extender requests these from Slurm."""
    jobs = standing.jobs[:LONGEST_JOBS] if rules.lock else ()
    wanted = f"{rules.owner}: {','.join(map(str, jobs))}" if jobs else None
    written = node.annotations.get(NATIVE_JOBS)
    if written == wanted or (written is not None and not written.startswith(f"{rules.owner}: ")):
        return {}
    return {NATIVE_JOBS: wanted}


def native_jobs_in(node: NodeView, owner: str) -> tuple[int, ...]:
    """Return the jobs for which the extender locked a Node; any other text there is ignored."""
    author, _, jobs = node.annotations.get(NATIVE_JOBS, "").partition(": ")
    found = (int(job[0]) for job in _JOB.finditer(jobs)) if author == owner else iter(())
    return tuple(islice(found, LONGEST_JOBS))
