"""Handle SIGTERM, SIGUSR1 and SIGUSR2."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class SignalHandlers:
    """What signals have asked for so far, and the functions that they call."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """SIGTERM, SIGINT."""

    release_brake: Callable[[], None] | None = None
    """What SIGUSR1 does once the process is up: it is known why so many jobs are not there, their Pods may be ended."""

    def release_guard(self) -> None:
        """SIGUSR1 came."""
        if self.release_brake is not None:
            self.release_brake()
