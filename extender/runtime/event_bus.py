"""Publish typed events inside the process: informers, the engine and polls publish, controllers subscribe.

The types of events are in `topics`. Handlers run at once, in the order of their subscription, on the event loop: they
note what changed and add keys to a work queue, and leave everything else to their `reconcile`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class EventBus:
    """Deliver each published event to the handlers of its type.

    All subscriptions are made while the process is assembled, so what reacts to an event can be read in one place.
    """

    def __init__(self) -> None:
        self._handlers: dict[type, list[Callable[[Any], None]]] = {}

    def subscribe(self, kind: type[T], handler: Callable[[T], None]) -> None:
        """Call `handler` with every event of exactly this type that is published from now on."""
        self._handlers.setdefault(kind, []).append(handler)

    def publish(self, event: object) -> None:
        """Call the handlers of this event's type. What a handler raises reaches the publisher."""
        for handler in self._handlers.get(type(event), ()):
            handler(event)

    async def publish_in_turns(self, event: object, maybe_yield: Callable[[], Awaitable[None]]) -> None:
        """Call the handlers as `publish` does, and yield to the event loop between them where it is due.

        For events that are large, such as the states of all jobs: each handler reads the whole of it.
        """
        for handler in tuple(self._handlers.get(type(event), ())):
            await maybe_yield()
            handler(event)
