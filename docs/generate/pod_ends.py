"""Print the ends of Pods in `docs/reference/states.md` from the table below.

`tests/unit/domain/test_pod_transitions.py` holds the machine to it. Run from the top of the repository: `python -m
docs.generate.pod_ends` writes the page with fresh tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from docs.generate.marked import renewed
from extender.domain.nodes.removals import HEARS_S, OUT_OF_SERVICE, SETTLE_S
from extender.domain.placeholder import State


@dataclass(frozen=True, slots=True)
class PodTransition:
    """The state entered, and what that means."""

    state: State
    text: str


class Stage(StrEnum):
    """The progress of the Pod."""

    WAITING = "its job waits"
    GRANTED = "granted"
    BINDING = "being bound"
    BOUND = "bound"
    ENDED = "its job is over"


class PodEvent(StrEnum):
    """An action of the kubelet, a user or a controller on the Pod."""

    DELETED = "its deletion is requested"
    SUCCEEDED = "it succeeds"
    FAILED = "it fails, or the kubelet evicts it"
    REMOVED = "its object is removed after the kubelet ended it, or before it was on a node"


_RELEASED, _KEPT = State.RELEASING, "none yet: the Pod may still run"
_JOB_ENDS = "the extender ends the job"


def _finished(ended: State) -> Mapping[Stage, PodTransition]:
    released = PodTransition(_RELEASED, _JOB_ENDS)
    return dict.fromkeys(Stage, released) | {Stage.ENDED: PodTransition(ended, "none")}


POD_TRANSITIONS: Mapping[PodEvent, Mapping[Stage, PodTransition]] = {
    PodEvent.DELETED: {
        Stage.WAITING: PodTransition(_RELEASED, _JOB_ENDS),
        Stage.GRANTED: PodTransition(_RELEASED, _JOB_ENDS),
        Stage.BINDING: PodTransition(State.GRANTED, "none before the result of the Binding"),
        Stage.BOUND: PodTransition(State.BOUND, _KEPT),
        Stage.ENDED: PodTransition(State.LOST, f"{_KEPT}; its grace period is shortened to Slurm's deadline"),
    },
    PodEvent.SUCCEEDED: _finished(State.GONE),
    PodEvent.FAILED: _finished(State.GONE),
    PodEvent.REMOVED: _finished(State.GONE),
}

UNPROVEN: Mapping[str, str] = {
    "deleted by force (grace period 0)": "held",
    "removed by Pod garbage collection, after its Node was deleted or is out of service": "held",
    "removed while its Node was not Ready": "held",
    "removed during a gap of the watch (a list without it)": "held",
    "replaced under the same name (StatefulSet)": "another UID is another Pod with its own job; the old one as above",
    "still there, and its Node is not Ready": "not held, and its job continues: missing information ends no job",
}
"""Ends that the kubelet does not report. `held`: see `nodes.removals`."""

PAGE = Path("docs/reference/states.md")
BEGIN = "<!-- Printed by `python -m docs.generate.pod_ends` from its own table. -->"
END = "<!-- The ends of Pods end here. -->"

_HEAD = """\
## Ends of Pods

A Pod has ended when its kubelet reports it: phase Succeeded or Failed with no running container. The kubelet reports
this before the Pod's object is removed. The table shows the action of the extender for each event of the Pod.
"""

_UNPROVEN = f"""\
*Held*: the extender drains the Slurm node first, with a reason that names the Pod, then ends the job. It lifts the
drain, while the Node is Ready, after two signs of life of the kubelet:

1. The first is later than the removal. The kubelet then learns of the removal within {HEARS_S:g} s, since it detects
   and restarts a broken watch in that time. It ends the containers with the Pod's own grace period, also after a
   forced deletion.
2. The second is later than these {HEARS_S:g} s plus the grace period: the kubelet has lived until then, and ended
   the containers. The node is free {SETTLE_S:g} s later; in this time a kubelet that restarted meanwhile ends the
   remaining containers.

A sign of life is a renewal of the kubelet's Lease in the namespace `kube-node-lease`, every 10 s. An update of the
status of its Node, every 5 min, is another one. Neither alone proves that a container has ended: both use other
connections than the watch of Pods. A node is therefore held for about 80 s plus the grace period. It is held longer
if the Node is away, or if the extender may not read Leases. The extender reads only the Leases of held Nodes, one by
one, every 5 s.

An administrator can report earlier that the node is empty: with the taint `{OUT_OF_SERVICE}` on the
Node, or with the site key by `POST /hooks/nodes/NODE/empty`. A Pod that was on no node holds none.
"""


def render() -> str:
    """The part of the page, without a newline at its end."""
    lines = [_HEAD, f"| the Pod | {' | '.join(Stage)} |", "|---" * (len(Stage) + 1) + "|"]
    lines += [f"| {what} | {' | '.join(row[stage].text for stage in Stage)} |" for what, row in POD_TRANSITIONS.items()]
    lines += ["", "### Ends that the kubelet did not report", "", _UNPROVEN, "| the Pod is | its node |", "|---|---|"]
    lines += [f"| {what} | {text} |" for what, text in UNPROVEN.items()]
    return "\n".join(lines)


def redrawn(page: str) -> str:
    """The page with fresh tables between its two markers. Raises `ValueError` where a marker is missing."""
    return renewed(page, PAGE, BEGIN, END, render())


def draw() -> None:
    """Write the page with fresh tables, from the top of the repository."""
    PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    draw()
