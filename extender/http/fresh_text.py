"""Serve one text to many requests: making it may read every workload, and any client may request it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from extender.domain.ports import Clock
from extender.runtime.cooperative_yield import CooperativeYield

FRESH_S = 1.0
"""For this long a text serves every request."""


class FreshText:
    """Keep the last text for `FRESH_S` seconds. `make` yields its parts; requests that come meanwhile wait for it."""

    def __init__(self, make: Callable[[], Iterable[bytes]], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._text, self._until = b"", -1.0
        self._making = asyncio.Lock()

    async def get(self) -> bytes:
        """Return the text, made at most `FRESH_S` seconds ago."""
        async with self._making:
            if self._clock.now() >= self._until:
                parts, turns = list[bytes](), CooperativeYield()
                for part in self._make():
                    parts.append(part)
                    await turns.maybe_yield()
                self._text, self._until = b"".join(parts), self._clock.now() + FRESH_S
            return self._text
