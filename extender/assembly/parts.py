"""Define a part of the process: a background task, and the events that it handles."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from extender.runtime.event_bus import EventBus

Run = Callable[[], Coroutine[None, None, None]]
Subscription = tuple[type, Callable[[Any], None]]


@dataclass(frozen=True, slots=True)
class Part:
    """One background task. `on`: the events that it handles. `everywhere`: it also runs where nothing may be written.

    `run` `None`: it only handles events.
    """

    name: str
    run: Run | None
    on: tuple[Subscription, ...] = ()
    everywhere: bool = False


def subscribe(events: EventBus, listed: tuple[Part, ...]) -> None:
    """Make the subscriptions of all parts, in their order."""
    for part in listed:
        for topic, handler in part.on:
            events.subscribe(topic, handler)
