"""What becomes of a placeholder when something becomes of its Pod: `docs/pod-ends.md` is printed from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from extender.domain.placeholder import State


class Stage(StrEnum):
    """How far the Pod has come."""

    WAITING = "its job waits"
    GRANTED = "granted"
    BINDING = "being bound"
    BOUND = "bound"
    ENDED = "its job is over"


class Happening(StrEnum):
    """What kubelet, a person or a controller does to it."""

    DELETED = "its deletion is asked"
    SUCCEEDED = "it succeeded"
    FAILED = "it failed, or kubelet evicted it"
    REMOVED = "it was removed when kubelet had ended it, or before it was on a node"


_RELEASED, _KEPT = State.RELEASING, "nothing yet: it may still run"
_JOB_ENDS = "the job is ended"


@dataclass(frozen=True, slots=True)
class PodFate:
    """The state entered, and what that means."""

    state: State
    text: str


def _over(ended: State) -> Mapping[Stage, PodFate]:
    released = PodFate(_RELEASED, _JOB_ENDS)
    return dict.fromkeys(Stage, released) | {Stage.ENDED: PodFate(ended, "nothing is left to do")}


POD_FATES: Mapping[Happening, Mapping[Stage, PodFate]] = {
    Happening.DELETED: {
        Stage.WAITING: PodFate(_RELEASED, _JOB_ENDS),
        Stage.GRANTED: PodFate(_RELEASED, _JOB_ENDS),
        Stage.BINDING: PodFate(State.GRANTED, "nothing before it is known whether it was bound"),
        Stage.BOUND: PodFate(State.BOUND, _KEPT),
        Stage.ENDED: PodFate(State.LOST, f"{_KEPT}; its grace is cut to Slurm's deadline"),
    },
    Happening.SUCCEEDED: _over(State.GONE),
    Happening.FAILED: _over(State.GONE),
    Happening.REMOVED: _over(State.GONE),
}

UNPROVEN: Mapping[str, str] = {
    "deleted by force (grace period 0)": "held",
    "removed by the garbage collector of Pods, its Node being deleted or out of service": "held",
    "removed while its Node was not Ready": "held",
    "removed while nobody watched (a list without it after a gap)": "held",
    "replaced under the same name (StatefulSet)": "another UID is another Pod with its own job; the old one as above",
    "Node not Ready, Pod still there": "nothing: missing information ends nothing",
}
"""Ends without kubelet's word. `held`: see `nodes.removals`."""
