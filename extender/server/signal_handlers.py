"""Handle SIGTERM, SIGUSR1 and SIGUSR2."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class SignalHandlers:
    """Record the signals received so far, and call their functions."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """SIGTERM, SIGINT."""

    confirm: Callable[[], None] | None = None
    """What SIGUSR1 does once the process is up: an administrator confirms that what is missing is gone."""

    def confirm_mass_deletion(self) -> None:
        """Confirm the mass deletion, since SIGUSR1 was received."""
        if self.confirm is not None:
            self.confirm()
