"""How units are told what happened: `Engine.handle`, for the parts of the engine."""

from __future__ import annotations

from collections.abc import Callable

from extender.domain.events import Event

Tell = Callable[[str, Event, str], None]
"""A unit's key, what happened, and how it is known, for the story. What follows from it is handled before or after."""
