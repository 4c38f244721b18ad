"""Handle SIGTERM, SIGUSR1 and SIGUSR2."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SignalHandlers:
    """Record the signals received so far, and call their functions."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        """SIGTERM, SIGINT."""

        self._confirm: Callable[[], None] | None = None

    @contextmanager
    def confirming(self, confirm: Callable[[], None]) -> Iterator[None]:
        """Call `confirm` for each SIGUSR1 while inside: an administrator confirms that what is missing is gone."""
        self._confirm = confirm
        try:
            yield
        finally:
            self._confirm = None

    def confirm_mass_deletion(self) -> None:
        """Confirm the mass deletion, since SIGUSR1 was received."""
        if self._confirm is not None:
            self._confirm()
