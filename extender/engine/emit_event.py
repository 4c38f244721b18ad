"""Give parts of the engine the type of `Engine.handle`, by which they send events to units."""

from __future__ import annotations

from collections.abc import Callable

from extender.domain.events import Event

EmitEvent = Callable[[str, Event, str], None]
"""A unit's key, what happened, and how it is known, for the story. What follows from it is handled before or after."""
