"""The form of the transition table: rules by event for each state, each naming the states that it may lead to.

The file of a state fills its `StateRules`; `machine` holds the table of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args

from extender.domain import events as e
from extender.domain.commands import Command
from extender.domain.placeholder import Placeholder, State, Timing
from extender.domain.states import Payload

Step = tuple[Placeholder, list[Command]]
"""A workload after an event, and the commands that follow, in order."""

DUPLICATE = "it is a duplicate job of its workload"
"""Why a duplicate job is cancelled."""

EVENTS: tuple[type, ...] = get_args(e.Event)

LATE_ANSWERS: Mapping[type, str] = {
    e.SubmitAccepted: "a late job is a duplicate, which is recorded in every state",
    e.SubmitRefused: "late answer to an attempt that is over",
    e.SubmitUnknown: "late answer to an attempt that is over",
    e.ProbeAnswered: "jobs that a second probe finds are duplicates, which are recorded in every state",
    e.ProbeFailed: "a second probe may fail",
    e.FollowAnswered: "excluded nodes matter to pending jobs only",
    e.UpdateAnswered: "jobs are updated only while they wait or their Pods run",
    e.NodesVacated: "nodes are returned only while all members are bound",
    e.ShrinkAnswered: "the next read shows which nodes the job has",
    e.CancelAnswered: "about a duplicate job, which is recorded in every state",
    e.AllocationFits: "late check of an allocation",
    e.AllocationBusy: "late check of an allocation",
    e.AllocationMisfits: "late check of an allocation",
    e.AllocationUnfenced: "late check of an allocation",
    e.WakeAnswered: "late answer about an allocation that has ended or is in use",
    e.NodeRefused: "late answer about an allocation that has ended or is in use",
    e.EvictAnswered: "late answer about a Pod that has finished or is not to be ended",
    e.CancelNoted: "late answer about a refusal that is over",
}
"""Answers to commands of one state, and why the other states ignore them."""

PayloadT = TypeVar("PayloadT", bound=Payload)


@dataclass(frozen=True, slots=True)
class At:
    """The instant of a step, and the waits that apply."""

    now: float
    timing: Timing


Handler = Callable[[Placeholder, PayloadT, Any, At], Step]
"""A rule's function: the workload, the payload of its state, the event, and the instant."""


class InvalidTransitionError(Exception):
    """An event has no rule in this state, or a rule led to a state that it does not declare."""

    def __init__(self, placeholder: Placeholder, event: e.Event, problem: str) -> None:
        super().__init__(f"{placeholder.key} in {placeholder.state}: {problem}: {event!r}")
        self.placeholder = placeholder
        self.event = event


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """The rule for one event in one state; without a handler the event is ignored. `to`: the states it may lead to."""

    to: frozenset[State]
    handler: Callable[[Placeholder, Any, Any, At], Step] | None
    why: str


class StateRules(Generic[PayloadT]):
    """The rules of one state. An event can be given once."""

    def __init__(self, payload: type[PayloadT]) -> None:
        self.state: State = payload.state
        self.payload = payload
        self._by_event: dict[type, TransitionRule] = {}

    @property
    def by_event(self) -> Mapping[type, TransitionRule]:
        """Return the rule of each type of event."""
        return self._by_event

    def on(self, handler: Handler[PayloadT], *events: type, to: Collection[State] = ()) -> None:
        """Register a handler for these events. Its docstring says why; the state itself need not be in `to`."""
        why = (handler.__doc__ or "").strip().split("\n")[0]
        self._put(TransitionRule(frozenset(to), handler, why), events)

    def ignore(self, why: str, *events: type) -> None:
        """Declare that these events have no effect here beyond what `preprocessing` records of every event."""
        self._put(TransitionRule(frozenset({self.state}), None, why), events)

    def ignore_late_answers(self, *awaited: type) -> None:
        """Ignore the answers to commands of other states: all but the awaited ones."""
        for event, why in LATE_ANSWERS.items():
            if event not in awaited:
                self.ignore(why, event)

    def _put(self, rule: TransitionRule, events: tuple[type, ...]) -> None:
        for event in events:
            if event in self._by_event:
                raise ValueError(f"{self.state} x {event.__name__} has two rules")
            self._by_event[event] = rule
