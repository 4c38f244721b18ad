"""Run a part of the process: its failure ends the whole process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable

import structlog

from extender.server.election import Deposed

_log = structlog.get_logger(__name__)


class TaskDied(Exception):
    """A part of the process that should run until the stop has ended; the text says which and why."""


async def part(name: str, work: Coroutine[None, None, None], *, ends: bool = False) -> None:
    """Run a part of the process. Raises `TaskDied` when it fails, and when it ends although it should not."""
    try:
        await work
    except Deposed as error:
        _log.critical("leadership_lost", error=str(error))
        raise TaskDied(f"{name}: {error}") from error
    except Exception as error:
        _log.critical("task_failed", task=name, error=repr(error), exc_info=True)
        raise TaskDied(f"{name}: {error!r}") from error
    if not ends:
        _log.critical("task_failed", task=name, error="it returned")
        raise TaskDied(f"{name} returned")


def cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    """End these."""
    for task in tasks:
        task.cancel()
