"""Execute, count and report each action: an object is removed, kept or left."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from extender.domain.ports import PortError
from extender.kube.errors import ApiError
from extender.kube.wire.fields import MalformedObject

T = TypeVar("T")

AT_ONCE = 8
"""Actions of one kind at a time: as many as there are connections to slurmrestd."""


class ActionLog:
    """The actions of one run. `say` prints a line."""

    def __init__(self, print_line: Callable[[str], None], *, dry_run: bool) -> None:
        self._print_line = print_line
        self._dry_run = dry_run
        self.done: Counter[str] = Counter()
        """Number of objects by `done`, `kept` and `left` (needs action)."""

    async def do(self, what: str, act: Callable[[], Awaitable[str]]) -> bool:
        """Execute an action, or print it in a dry run. Return whether it succeeded; `act` returns an error or ""."""
        if self._dry_run:
            self.done["done"] += 1
            self._print_line(f"would {what}")
            return False
        try:
            trouble = await act()
        except (PortError, ApiError, MalformedObject) as error:
            trouble = str(error)
        if trouble:
            self.left(f"{what}: {trouble}")
            return False
        self.done["done"] += 1
        self._print_line(what)
        return True

    def keep(self, text: str) -> None:
        """Report an object that stays, by an option or because it must."""
        self.done["kept"] += 1
        self._print_line(f"kept: {text}")

    def left(self, text: str) -> None:
        """Report an object that needs another run or an administrator."""
        self.done["left"] += 1
        self._print_line(f"needs action: {text}")


async def each(objects: Iterable[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Run `act` for each object, for some at a time."""
    left = iter(objects)

    async def work() -> None:
        for one in left:
            await act(one)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
