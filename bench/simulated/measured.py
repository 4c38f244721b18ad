"""`python -m bench.simulated.measured FILE ARGUMENT...`: slurm-extender, with every step of its event loop timed.

Each step is one callback of the loop, by CPU time of the thread, so that waiting for a core does not count. The longest
ones are written to FILE when SIGRTMIN comes (the user signals are the extender's), and counted anew from then on. The
loop is asyncio's own, since uvloop's steps cannot be timed from outside.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import json
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType

import uvloop

from extender.cli import main

KEPT = 10
_began: list[float] = []
_searched: list[tuple[int, float]] = []
"""Thread and seconds of each search within this step."""

_longest: list[tuple[float, int, str]] = []
_run = asyncio.Handle._run


def _timed(handle: asyncio.Handle) -> None:
    _searched.clear()
    began = time.thread_time()
    _run(handle)
    took = time.thread_time() - began
    if len(_longest) < KEPT or took > _longest[0][0]:
        searched = sum(seconds for thread, seconds in _searched if thread == threading.get_ident())
        more = f", {1000 * searched:.0f} ms of it a search for cyclic garbage" if searched else ""
        entry = (took, time.perf_counter_ns(), _what(handle) + more)
        (heapq.heappush if len(_longest) < KEPT else heapq.heappushpop)(_longest, entry)


def _collected(phase: str, _about: dict[str, int]) -> None:
    """Time the searches for cyclic garbage."""
    now = time.thread_time()
    if phase == "start":
        _began.append(now)
    elif _began:
        _searched.append((threading.get_ident(), now - _began.pop()))


def _what(handle: asyncio.Handle) -> str:
    # A loop has nothing public for it. Not its `repr`: that of an answer of aiohttp reads what is not there yet.
    called = handle._callback  # type: ignore[attr-defined]
    whose = getattr(called, "__self__", None)
    if isinstance(whose, asyncio.Task):
        return whose.get_name()
    return str(getattr(called, "__qualname__", type(called).__name__))


def write(path: Path) -> None:
    """The longest first, and begin anew."""
    steps = [{"ms": 1000 * took, "what": what} for took, _, what in sorted(_longest, reverse=True)]
    _longest.clear()
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(steps), encoding="utf-8")
    fresh.rename(path)


def _notified(path: Path) -> None:
    def handler(number: int, frame: FrameType | None) -> None:
        del number, frame
        write(path)

    signal.signal(signal.SIGRTMIN, handler)


if __name__ == "__main__":
    asyncio.Handle._run = _timed  # type: ignore[assignment,method-assign]
    uvloop.new_event_loop = asyncio.new_event_loop  # type: ignore[assignment]
    gc.callbacks.append(_collected)
    _notified(Path(sys.argv[1]))
    main(sys.argv[2:])
