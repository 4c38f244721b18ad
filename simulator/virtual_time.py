"""An event loop without sockets and without waiting: when nothing is left to do, its clock jumps to the next timer.

Two runs of one program take the same turns in the same order, as long as the program draws its own chances and starts
no threads. What it gives to the loop's own threads is done at once.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stuck(RuntimeError):
    """Everything waits, and nothing will ever happen."""


class _Jump:
    """In the place of a selector: the loop asks it to wait, and it moves the clock."""

    def __init__(self, clock: Callable[[float], None]) -> None:
        self._advance = clock

    def select(self, timeout: float | None) -> list[Any]:
        """Wait in virtual time. Raises Stuck."""
        if timeout is None:
            raise Stuck("every task waits and no timer is set: nothing will ever happen on this loop")
        if timeout > 0:
            self._advance(timeout)
        return []


class _Task(asyncio.Task[Any]):
    """A task whose place in a set is decided by its number, not by its address in memory."""

    _numbers = itertools.count()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """A loop whose time begins at 0.0 and costs nothing. It has no sockets, pipes, signals or threads."""

    def __init__(self) -> None:
        super().__init__()
        self._time = 0.0
        number_tasks(self)
        self._selector = _Jump(self._advance)  # Nothing else is asked of it by `_run_once` of asyncio's base_events.py.

    def time(self) -> float:
        """Return virtual seconds."""
        return self._time

    def run_in_executor(  # type: ignore[override]
        self, _executor: Any, work: Callable[..., T], *given: Any
    ) -> asyncio.Future[T]:
        """Do it at once."""
        return at_once(self, work, *given)

    def _advance(self, seconds: float) -> None:
        # Exactly to the timer: a sum could fall short of it by its last bit.
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        due = scheduled[0].when() if scheduled else 0.0
        self._time = due if self._time < due <= self._time + seconds + 1e-6 else self._time + seconds

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: there are no file descriptors."""

    def _write_to_self(self) -> None:
        """Do nothing: no thread waits."""


def at_once(loop: asyncio.AbstractEventLoop, work: Callable[..., T], *given: Any) -> asyncio.Future[T]:
    """Do the work of a thread at once: its end would depend on how busy the machine is."""
    done: asyncio.Future[T] = loop.create_future()
    try:
        done.set_result(work(*given))
    except Exception as error:
        done.set_exception(error)
    return done


def number_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Count the tasks of a loop, from 0 on: a set of them has the same order in each run."""
    _Task._numbers = itertools.count()
    loop.set_task_factory(numbered_task)


def numbered_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Future[Any]:
    """Return a task factory: the order of tasks in a set is that in which they were made."""
    return _Task(work, loop=loop, **options)


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on virtual time. Raises what it raises, and Stuck."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
