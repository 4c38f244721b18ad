"""What is done with each thing: it is handed back, kept or left, counted, and said."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from extender.domain.ports import PortError
from extender.kube.errors import ApiError
from extender.kube.wire.fields import OddObject

T = TypeVar("T")

AT_ONCE = 8
"""Things of one kind under way at a time: as many as there are connections to slurmrestd."""


class Deeds:
    """Those of one run. `say` is told each thing, a line each."""

    def __init__(self, say: Callable[[str], None], *, dry_run: bool) -> None:
        self._say = say
        self._dry_run = dry_run
        self.done: Counter[str] = Counter()
        """`done`, `kept`, `left`: how many things."""

    async def do(self, what: str, act: Callable[[], Awaitable[str]]) -> bool:
        """Do it, or say that it would be done. Whether it was."""
        if self._dry_run:
            self.done["done"] += 1
            self._say(f"would {what}")
            return False
        try:
            trouble = await act()
        except (PortError, ApiError, OddObject) as error:
            trouble = str(error)
        if trouble:
            self.left(f"{what}: {trouble}")
            return False
        self.done["done"] += 1
        self._say(what)
        return True

    def keep(self, text: str) -> None:
        """Something stays, as it was asked for or has to be."""
        self.done["kept"] += 1
        self._say(f"kept: {text}")

    def left(self, text: str) -> None:
        """Something is left that another run, or a person, has to see to."""
        self.done["left"] += 1
        self._say(f"left: {text}")


async def each(things: Iterable[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Do this to each of them, to some at a time."""
    left = iter(things)

    async def work() -> None:
        for one in left:
            await act(one)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
