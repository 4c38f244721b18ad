"""The simulator's loop under tests that are marked `looptime`.

It asks no selector and starts no threads, so its time can jump without a check of external events.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from looptime import LoopTimeEventLoop

from simulator.virtual_time import VirtualLoop


class JumpingLoop(VirtualLoop, LoopTimeEventLoop):  # type: ignore[misc]  # they differ in what selects
    """Pass for a loop of looptime, so that looptime leaves it unchanged."""

    def setup_looptime(self, **_options: Any) -> None:
        """Do nothing: its time jumps from the beginning on."""

    @contextmanager
    def looptime_enabled(self) -> Iterator[None]:
        """Change nothing: the time already jumps."""
        yield
