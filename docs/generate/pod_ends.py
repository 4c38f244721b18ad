"""Print `docs/pod-ends.md` from the table below. `tests/unit/domain/test_pod_transitions.py` holds the machine to it.

Run from the top of the repository: `python -m docs.generate.pod_ends > docs/pod-ends.md`
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

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
    """The things that kubelet, a user or a controller does to it."""

    DELETED = "its deletion is requested"
    SUCCEEDED = "it succeeded"
    FAILED = "it failed, or kubelet evicted it"
    REMOVED = "it was removed when kubelet had ended it, or before it was on a node"


_RELEASED, _KEPT = State.RELEASING, "nothing yet: it may still run"
_JOB_ENDS = "the job is ended"


def _over(ended: State) -> Mapping[Stage, PodTransition]:
    released = PodTransition(_RELEASED, _JOB_ENDS)
    return dict.fromkeys(Stage, released) | {Stage.ENDED: PodTransition(ended, "nothing is left to do")}


POD_TRANSITIONS: Mapping[PodEvent, Mapping[Stage, PodTransition]] = {
    PodEvent.DELETED: {
        Stage.WAITING: PodTransition(_RELEASED, _JOB_ENDS),
        Stage.GRANTED: PodTransition(_RELEASED, _JOB_ENDS),
        Stage.BINDING: PodTransition(State.GRANTED, "nothing before it is known whether it was bound"),
        Stage.BOUND: PodTransition(State.BOUND, _KEPT),
        Stage.ENDED: PodTransition(State.LOST, f"{_KEPT}; its grace is cut to Slurm's deadline"),
    },
    PodEvent.SUCCEEDED: _over(State.GONE),
    PodEvent.FAILED: _over(State.GONE),
    PodEvent.REMOVED: _over(State.GONE),
}

UNPROVEN: Mapping[str, str] = {
    "deleted by force (grace period 0)": "held",
    "removed by the garbage collector of Pods, its Node being deleted or out of service": "held",
    "removed while its Node was not Ready": "held",
    "removed during a gap of the watch (a list without it)": "held",
    "replaced under the same name (StatefulSet)": "another UID is another Pod with its own job; the old one as above",
    "Node not Ready, Pod still there": "nothing: missing information ends no job",
}
"""Ends that kubelet does not report. `held`: see `nodes.removals`."""

_HEAD = """\
# How a Pod's end is taken

<!-- Printed by `python -m docs.generate.pod_ends` from its own table. -->

A Pod is gone when its kubelet says so: phase Succeeded or Failed with no container running, which kubelet writes before
the Pod is removed. What Slurm's end does to a Pod stands in `slurm-states.md`.
"""

_UNPROVEN = f"""\
*Held*: the Slurm node is drained first, by us and with a reason that names the Pod; then its job is ended. The drain is
lifted, while the Node is Ready, after two words of its kubelet:

1. one from after the removal. kubelet then hears of the removal within {HEARS_S:g} s, since a dead watch is found and
   begun again in that time, and gives the containers the Pod's own grace, also where the Pod was removed by force;
2. one from after those {HEARS_S:g} s and the grace: it has lived until then, and ended them. {SETTLE_S:g} s later the
   node is free; in these a kubelet that was started again meanwhile ends what it finds.

Its words are the Lease that every kubelet renews in the namespace `kube-node-lease` every 10 s, and its Node's status,
every 5 min. Neither alone proves that anything has stopped: both come from other connections than the watch of Pods.
So a node is held for some 80 s and the grace; for longer where the Node is away, or where Leases may not be read.
The Leases of held Nodes alone are read, one by one, every 5 s and only while that shows something.

A person can say earlier that nothing runs there: with the taint `{OUT_OF_SERVICE}` on the Node,
or with the site key by `POST /hooks/nodes/NODE/empty`. A Pod that was on no node leaves nothing behind.
"""


def render() -> str:
    """The whole page, with a newline at its end."""
    lines = [_HEAD, f"| | {' | '.join(Stage)} |", "|---" * (len(Stage) + 1) + "|"]
    lines += [f"| {what} | {' | '.join(row[stage].text for stage in Stage)} |" for what, row in POD_TRANSITIONS.items()]
    lines += ["", "## Ends without kubelet's word", "", _UNPROVEN, "| the Pod is | its node |", "|---|---|"]
    lines += [f"| {what} | {text} |" for what, text in UNPROVEN.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
