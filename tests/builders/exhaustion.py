"""Every order of events, up to a depth: what the core does with one workload from its beginnings on, nothing sampled.

Two placeholders count as the same where they differ in nothing that decides (`exploration.essence`), so a depth is
finished when each of those met before it has received every event that it could receive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from extender.domain import events as e
from extender.domain.lifecycle.machine import TABLE, step
from extender.domain.placeholder import Placeholder, State, validate
from tests.builders.exploration import NOW, PODS, TIMING, beginnings, essence, events, instants, rebased

NEVER_GIVEN = {(state, e.BindStarted.__name__) for state in State if state not in {State.GRANTED, State.BOUND}}
"""The engine alone starts a Binding, in the same instant in which it has seen that it may."""

Pair = tuple[State, str]
Edge = tuple[State, State, str]


@dataclass(frozen=True, slots=True)
class Depth:
    """Count one depth: the placeholders that received every event, the steps, and the placeholders found."""

    placeholders: int
    steps: int
    met: int


@dataclass(slots=True)
class Walked:
    """Hold the visited pairs. `pairs` and `edges` have the depth at which each was reached first."""

    depths: list[Depth] = field(default_factory=list)
    states: dict[State, int] = field(default_factory=dict)
    """Different placeholders met, by state."""

    pairs: dict[Pair, int] = field(default_factory=dict)
    edges: dict[Edge, int] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Return the number of all steps; each was checked against its rule and the invariants."""
        return sum(depth.steps for depth in self.depths)

    @property
    def unreached(self) -> list[Pair]:
        """Return entries of the table that no step reached."""
        return sorted(
            {(state, kind.__name__) for state, rules in TABLE.items() for kind in rules} - set(self.pairs) - NEVER_GIVEN
        )


def walk(pods: int, depth: int) -> Walked:
    """Give a workload of one or two Pods every event in every order, up to `depth` events after a beginning.

    Raises `AssertionError` or `InvalidTransitionError` with the placeholder and the event that did it.
    """
    refs, walked = PODS[:pods], Walked()
    seen: set[tuple[object, ...]] = set()

    def fresh(p: Placeholder, now: float) -> Iterator[Placeholder]:
        if (key := essence(p, now)) not in seen:
            seen.add(key)
            walked.states[p.state] = walked.states.get(p.state, 0) + 1
            yield rebased(p, now)

    level = [one for p in beginnings(refs) for one in fresh(p, NOW)]
    for number in range(1, depth + 1):
        steps = 0
        after_it: list[Placeholder] = []
        for p in level:
            for event in events(p, refs):
                for now in instants(p, event):
                    after, _ = step(p, event, now, TIMING)
                    _hold(p, after, event)
                    steps += 1
                    walked.pairs.setdefault((p.state, type(event).__name__), number)
                    if after.state is not p.state:
                        walked.edges.setdefault((p.state, after.state, type(event).__name__), number)
                    after_it.extend(fresh(after, now))
        walked.depths.append(Depth(len(level), steps, len(after_it)))
        level = after_it
    return walked


def _hold(before: Placeholder, after: Placeholder, event: object) -> None:
    try:
        validate(after)
    except AssertionError as error:
        raise AssertionError(f"{error} after {event!r} in {before!r}") from error
