"""Print the batch script that holds a Pod's share of a node, with its settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from extender.domain.jobs.job import Mark
from extender.domain.wellknown import Hook
from extender.slurm.scripts import script

SCRIPT = script("placeholder.sh")
"""The batch script of every placeholder that has one."""

# A batch script that came by REST gets nothing but what is sent, and some variables SLURM_*: no PATH, no HOME.
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The script's settings for the hooks.

    `url` is their base address, "" where nodes cannot reach any. `wait_s` is how long the script may wait for a Pod at
    the end, below Slurm's KillWait. `token` proves to the hooks which job calls. `warning_s` before its time limit the
    script receives a signal; slurmctld checks every 30 s.
    """

    url: str = ""
    wait_s: int = 8
    token: Callable[[Mark], str] | None = None
    warning_s: int = 60


def environment(mark: Mark, hooks: HookSettings) -> tuple[str, ...]:
    """Return the whole environment of the script, `KEY=value` each."""
    return (
        _PATH,
        f"{Hook.URL}={hooks.url}",
        f"{Hook.TOKEN}={hooks.token(mark) if hooks.token else ''}",
        f"{Hook.WAIT}={hooks.wait_s}",
    )
