"""Who hears of which event."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from extender.runtime.event_bus import EventBus


@dataclass(frozen=True)
class Changed:
    name: str


@dataclass(frozen=True)
class Gone:
    name: str


def test_handlers_get_the_events_of_their_type_in_the_order_of_subscription() -> None:
    bus, heard = EventBus(), list[str]()
    bus.subscribe(Changed, lambda event: heard.append(f"first {event.name}"))
    bus.subscribe(Gone, lambda event: heard.append(f"gone {event.name}"))
    bus.subscribe(Changed, lambda event: heard.append(f"second {event.name}"))
    bus.publish(Changed("a"))
    bus.publish(Gone("b"))
    assert heard == ["first a", "second a", "gone b"]


def test_an_event_without_a_listener_is_no_fault() -> None:
    EventBus().publish(Changed("a"))


def test_what_a_handler_raises_reaches_the_publisher() -> None:
    def refuse(_event: Changed) -> None:
        raise ValueError("no")

    bus = EventBus()
    bus.subscribe(Changed, refuse)
    with pytest.raises(ValueError, match="no"):
        bus.publish(Changed("a"))


async def test_a_large_event_yields_between_its_handlers() -> None:
    bus, heard = EventBus(), list[str]()

    async def maybe_yield() -> None:
        heard.append("yield")

    bus.subscribe(Changed, lambda _event: heard.append("first"))
    bus.subscribe(Changed, lambda _event: heard.append("second"))
    await bus.publish_in_turns(Changed("a"), maybe_yield)
    assert heard == ["yield", "first", "yield", "second"]
