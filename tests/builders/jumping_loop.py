"""The simulator's loop under tests that are marked `looptime`.

It asks no selector and starts no threads, so nothing has to be looked for outside of it before its time jumps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from looptime import LoopTimeEventLoop

from simulator.virtual_time import VirtualLoop


class JumpingLoop(VirtualLoop, LoopTimeEventLoop):  # type: ignore[misc]  # they differ in what selects
    """looptime takes it for one of its own, and leaves it as it is."""

    def setup_looptime(self, **_options: Any) -> None:
        """Nothing: its time jumps from the beginning on."""

    @contextmanager
    def looptime_enabled(self) -> Iterator[None]:
        """As ever."""
        yield
