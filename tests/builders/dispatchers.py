"""Dispatchers of commands whose other sides are given by a test."""

from __future__ import annotations

from collections.abc import Callable

from extender.assembly.io_context import LoopClock
from extender.domain import commands as c
from extender.domain.ports import Announcement
from extender.engine.command_dispatcher import CommandDispatcher, Execute
from extender.engine.job_read_versions import JobReadVersions


class Silent:
    """Announce nothing."""

    def announce(self, said: Announcement) -> None:
        raise AssertionError(f"no command here announces anything: {said}")


def dispatcher(
    done: Execute,
    workers: int = 1,
    namespace_of: Callable[[str], str] = lambda _key: "",
    may_wake: Callable[[str, c.WakePod], bool] = lambda _key, _command: True,
    *,
    gated: bool = True,
) -> CommandDispatcher:
    return CommandDispatcher(
        done,
        done,
        JobReadVersions(LoopClock(), frozenset),
        Silent(),
        clock=LoopClock(),
        may_wake=may_wake,
        is_gated=lambda _uid: gated,
        nodes_known=lambda: True,
        namespace_of=namespace_of,
        explain=lambda _p: "",
        workers=workers,
    )
