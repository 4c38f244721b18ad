"""Python's search for cyclic garbage, put off while a large reply is read.

Five thousand nodes are half a million dicts and lists, none of them in a cycle. Their number sets one search after the
other off, each of which walks over those that are there and holds the interpreter meanwhile, in whichever thread: 40 to
90 ms at a time with CPython 3.11.
"""

from __future__ import annotations

import gc
import threading
from typing import Self


class _PutOff:
    """How many readings want it so, and whether it was on before the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._was_on = False

    def more(self) -> None:
        with self._lock:
            if not self._count:
                self._was_on = gc.isenabled()
                gc.disable()
            self._count += 1

    def less(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count and self._was_on:
                gc.enable()


_put_off = _PutOff()


class Search:
    """Is put off from `put_off` until the block is left. What was read should be freed by then."""

    def __init__(self) -> None:
        self._held = False

    def put_off(self) -> None:
        """From now on."""
        if not self._held:
            self._held = True
            _put_off.more()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._held:
            self._held = False
            _put_off.less()
