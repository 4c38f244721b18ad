"""Time a placeholder's life, phase by phase."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from extender.domain.placeholder import State


class PlacementPhase(StrEnum):
    """One part of the way; the text says from when to when."""

    text: str

    def __new__(cls, name: str, text: str) -> PlacementPhase:
        """Return a member with its text."""
        one = str.__new__(cls, name)
        one._value_, one.text = name, text
        return one

    SUBMIT = "submit", "from the Pod being seen, or wanting a job again, to Slurm's acceptance of the job"
    GRANT = "grant", "from Slurm's acceptance of the job to the allocation"
    BIND = "bind", "from the allocation to the Pods being bound"
    PLACED = "placed", "from the Pod being seen first to its being bound, over all jobs that it took"
    GONE = "gone", "from the end of an allocation, or its announcement, to the end of the Pods on it"
    RELEASE = "release", "from the last Pod's end, or the release of a job, to the end of the job as Slurm reported it"


@dataclass(slots=True)
class Life:
    """When a placeholder came to each stage of its way; instants of the clock."""

    seen: float
    wanted: float = field(init=False)
    placed: bool = False
    submitted: bool = False
    """Not so for one that was there before this process: its way is not known."""

    whole: bool = True
    """All of it was lived in this process."""

    accepted: float | None = None
    granted: float | None = None
    bound: float | None = None
    lost: float | None = None
    released: float | None = None

    def __post_init__(self) -> None:
        self.wanted = self.seen

    def reached(self, before: State, state: State, now: float) -> list[tuple[PlacementPhase, float]]:
        """Return the phases that end with this change of state. One that ended in this try does not count twice."""
        done = self._left(before, state, now)
        if before is State.UNSURE and not self.submitted:
            self.whole = False
        match state:
            case State.ABSENT:  # wanted again: the timing starts over
                self.wanted, self.submitted = now, False
                self.accepted = self.granted = self.bound = None
            case State.SUBMITTING:
                self.submitted = True
            case State.LOST:
                self.lost = now
            case State.RELEASING:
                self.released = now
            case _:
                pass
        if state in {State.WAITING, State.GRANTED} and self.submitted and self.accepted is None:
            self.accepted = now
            done.append((PlacementPhase.SUBMIT, now - self.wanted))
        if state is State.GRANTED and self.granted is None and self.accepted is not None:
            self.granted = now
            done.append((PlacementPhase.GRANT, now - self.accepted))
        if state is State.BOUND and self.bound is None and self.granted is not None:
            self.bound = now
            done.append((PlacementPhase.BIND, now - self.granted))
            if self.whole and not self.placed:
                self.placed = True
                done.append((PlacementPhase.PLACED, now - self.seen))
        return done

    def _left(self, before: State, state: State, now: float) -> list[tuple[PlacementPhase, float]]:
        done: list[tuple[PlacementPhase, float]] = []
        if before is State.LOST and self.lost is not None:
            done.append((PlacementPhase.GONE, now - self.lost))
            self.lost = None
        if before is State.RELEASING and self.released is not None:
            if state in {State.ABSENT, State.SUBMITTING, State.REFUSED, State.GONE}:
                done.append((PlacementPhase.RELEASE, now - self.released))
            self.released = None
        return done
