"""`python -m bench.simulated.measured FILE ARGUMENT...`: slurm-extender, with every step of its event loop timed.

Each step is one callback of the loop, by CPU time of the thread, so that waiting for a core does not count. The longest
ones are written to FILE when SIGUSR2 comes, and counted anew from then on. The loop is asyncio's own, since uvloop's
steps cannot be timed from outside.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import uvloop

from extender.cli import main

KEPT = 10
_longest: list[tuple[float, int, str]] = []
_run = asyncio.Handle._run


def _timed(handle: asyncio.Handle) -> None:
    began = time.thread_time()
    _run(handle)
    took = time.thread_time() - began
    if len(_longest) < KEPT or took > _longest[0][0]:
        entry = (took, time.perf_counter_ns(), _what(handle))
        (heapq.heappush if len(_longest) < KEPT else heapq.heappushpop)(_longest, entry)


def _what(handle: asyncio.Handle) -> str:
    whose = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]  # a loop has nothing public for it
    return whose.get_name() if isinstance(whose, asyncio.Task) else repr(handle)[:300]


def write(path: Path) -> None:
    """The longest first, and begin anew."""
    steps = [{"ms": 1000 * took, "what": what} for took, _, what in sorted(_longest, reverse=True)]
    _longest.clear()
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(steps), encoding="utf-8")
    fresh.rename(path)


def _told(path: Path) -> None:
    def handler(number: int, frame: FrameType | None) -> None:
        del number, frame
        write(path)

    signal.signal(signal.SIGUSR2, handler)


if __name__ == "__main__":
    asyncio.Handle._run = _timed  # type: ignore[assignment,method-assign]
    uvloop.new_event_loop = asyncio.new_event_loop  # type: ignore[assignment]
    _told(Path(sys.argv[1]))
    main(sys.argv[2:])
