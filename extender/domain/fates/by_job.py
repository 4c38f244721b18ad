"""What each thing that Slurm can say of a job does to a placeholder that waits, was granted, or runs: the one table.

`lifecycle` is held to it, word by word, and `docs/slurm-states.md` is printed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from extender.domain.events import EndKind
from extender.domain.fates import outcomes as o
from extender.domain.placeholder import State
from extender.domain.wellknown import Reason


class Word(StrEnum):
    """What a job, read whole, comes to; `UNKNOWN`, that there is none to read."""

    QUEUED = "queued"
    STUCK = "can never run"
    STARTING = "starting"
    RUNNING = "running"
    ANNOUNCED = "end announced"
    CANCELLED = "cancelled"
    NEVER = "ended because it can never run"
    OVER = "over"
    TAKEN = "taken back, may run again"
    UNKNOWN = "not known to Slurm any more"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Fate:
    """What follows. `state` is the one entered, `event` the reason of the Event, `ends` whether running Pods are ended.

    `doubted`: only where Slurm still says so after a while.
    """

    state: State
    text: str
    event: Reason | None = None
    ends: bool = False
    doubted: bool = False


WAITING, GRANTED, BOUND = State.WAITING, State.GRANTED, State.BOUND
LIVE = (WAITING, GRANTED, BOUND)

_LOSES = Fate(State.LOST, "the Pod is ended, then the job", Reason.LOST, ends=True)
_ENDED = Fate(State.LOST, "the Pod is ended; its node is drained until it is gone", Reason.LOST, ends=True)
_EVICTED = Fate(State.LOST, "the Pod is evicted, budgets respected for a while, then deleted", Reason.LOST, ends=True)
_BACK = Fate(State.RELEASING, "the job is given back, and another is submitted", Reason.GIVEN_BACK)
_AGAIN = Fate(State.ABSENT, "another job is submitted after a pause", Reason.RETRYING)
_PERSON = Fate(State.REFUSED, "nothing is submitted until the Pod asks for something else", Reason.CANCELLED)
_REFUSED = Fate(State.REFUSED, "nothing is submitted until the Pod asks for something else", Reason.REFUSED)


def _stays(state: State, text: str = "nothing", event: Reason | None = None) -> Fate:
    return Fate(state, text, event)


FATES: Mapping[Word, Mapping[State, Fate]] = {
    Word.QUEUED: {
        WAITING: _stays(WAITING, "it waits, and says for what", Reason.WAITING),
        GRANTED: _stays(WAITING, "its nodes were taken back: it waits"),
        BOUND: _LOSES,
    },
    Word.STUCK: {
        WAITING: Fate(State.RELEASING, "it waits; still so after 15 s, it is refused", Reason.WAITING, doubted=True),
        GRANTED: _BACK,
        BOUND: _LOSES,
    },
    Word.STARTING: {state: _stays(state) for state in LIVE},
    Word.RUNNING: {
        WAITING: _stays(GRANTED, "granted: the node is handed out once kubelet would admit the Pod", Reason.GRANTED),
        GRANTED: _stays(GRANTED),
        BOUND: _stays(BOUND),
    },
    Word.ANNOUNCED: {WAITING: _BACK, GRANTED: _BACK, BOUND: _LOSES},
    Word.CANCELLED: {WAITING: _PERSON, GRANTED: _PERSON, BOUND: _EVICTED},
    Word.NEVER: {WAITING: _REFUSED, GRANTED: _REFUSED, BOUND: _ENDED},
    Word.OVER: {WAITING: _AGAIN, GRANTED: _AGAIN, BOUND: _ENDED},
    Word.TAKEN: {WAITING: _BACK, GRANTED: _BACK, BOUND: _LOSES},
    Word.UNKNOWN: {WAITING: _AGAIN, GRANTED: _AGAIN, BOUND: _ENDED},
    Word.UNCLEAR: {state: _stays(state) for state in LIVE},
}


def word_of(seen: o.Observation) -> Word:
    """Which line of the table an observation is."""
    match seen:
        case o.Waiting():
            return Word.STUCK if seen.impossible else Word.QUEUED
        case o.Starting():
            return Word.STARTING
        case o.Running():
            return Word.RUNNING
        case o.Ending():
            return Word.ANNOUNCED
        case o.Ended(alive=True):
            return Word.TAKEN
        case o.Ended(kind=EndKind.CANCELLED):
            return Word.CANCELLED
        case o.Ended(kind=EndKind.IMPOSSIBLE):
            return Word.NEVER
        case o.Ended():
            return Word.OVER
        case o.Unclear():
            return Word.UNCLEAR
