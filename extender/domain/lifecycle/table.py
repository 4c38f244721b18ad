"""The transition table: rules by state and event, each naming the states it may lead to.

The rooms of this package fill it; `step` looks rules up and holds each to its word; the state diagram of the docs is
drawn from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from extender.domain.commands import Command
from extender.domain.events import Event
from extender.domain.placeholder import Placeholder, State, Timing

Step = tuple[Placeholder, list[Command]]


@dataclass(frozen=True, slots=True)
class At:
    """The instant of a step, and the waits that apply."""

    now: float
    timing: Timing


Body = Callable[[Placeholder, Any, At], Step]
"""Typed by the event that it is registered for."""


class InvalidTransitionError(Exception):
    """An event came that the table does not know in this state, or a rule went where it must not."""

    def __init__(self, placeholder: Placeholder, event: Event, problem: str) -> None:
        super().__init__(f"{placeholder.key} in {placeholder.state}: {problem}: {event!r}")
        self.placeholder = placeholder
        self.event = event


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens on one event in one state; without a body it is ignored. `to`: the states it may lead to."""

    to: frozenset[State]
    body: Body | None
    why: str


@dataclass(slots=True)
class Table:
    """Rules by (state, event type). A pair can be given once."""

    rules: dict[tuple[State, type], Rule] = field(default_factory=dict)

    def on(self, states: tuple[State, ...], events: tuple[type, ...], to: tuple[State, ...]) -> Callable[[Body], Body]:
        """Register a rule for every pair; its docstring says why."""

        def register(body: Body) -> Body:
            rule = Rule(frozenset(to), body, (body.__doc__ or "").strip().split("\n")[0])
            for state in states:
                for event in events:
                    self._put(state, event, rule)
            return body

        return register

    def ignore(self, states: tuple[State, ...], events: tuple[type, ...], why: str) -> None:
        """Say that these events mean nothing in these states, and why (beyond what every step records of members)."""
        for state in states:
            for event in events:
                self._put(state, event, Rule(frozenset({state}), None, why))

    def _put(self, state: State, event: type, rule: Rule) -> None:
        if (state, event) in self.rules:
            raise ValueError(f"{state} x {event.__name__} has two rules")
        self.rules[state, event] = rule

    def edges(self) -> Iterator[tuple[State, State, str]]:
        """Every possible change of state and the event behind it, sorted."""
        yield from sorted(
            (state, target, event.__name__)
            for (state, event), rule in self.rules.items()
            for target in rule.to
            if target is not state
        )


ABSENT, SUBMITTING, UNSURE, WAITING = State.ABSENT, State.SUBMITTING, State.UNSURE, State.WAITING
GRANTED, BOUND, LOST, RELEASING = State.GRANTED, State.BOUND, State.LOST, State.RELEASING
REFUSED, GONE = State.REFUSED, State.GONE
EVENTS: tuple[type, ...] = get_args(Event)
TABLE = Table()
