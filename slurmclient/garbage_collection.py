"""Pause the cyclic garbage collector of Python while a large reply is parsed.

Five thousand nodes are half a million dicts and lists, none of them in a cycle. Their number triggers one collection
after another. Each visits all of them and holds the interpreter in every thread: 40 to 90 ms at a time with CPython
3.11.
"""

from __future__ import annotations

import gc
import threading
from typing import Self


class _Pauses:
    """Count the pauses that overlap, and restore the former state after the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._was_on = False

    def begin(self) -> None:
        with self._lock:
            if not self._count:
                self._was_on = gc.isenabled()
                gc.disable()
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count and self._was_on:
                gc.enable()


_pauses = _Pauses()


class GarbageCollectionPause:
    """Pause the collector from `begin` until the block is left. The caller frees the parsed reply before that."""

    def __init__(self) -> None:
        self._held = False

    def begin(self) -> None:
        """Pause the collector if this block has not done so yet."""
        if not self._held:
            self._held = True
            _pauses.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._held:
            self._held = False
            _pauses.end()
