"""Limit the lines of the log about one object: a Pod can change without a limit, and each change may be a line."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import structlog

BURST = 20
"""Lines with the same `msg` about one object that may come at once."""

EVERY_S = 10.0
"""After the burst one such line in this time, on average."""

KEPT = 4096
"""Pairs of a `msg` and an object that are remembered."""

LONGEST = 512
"""Characters that count of the name of an object."""


class _Allowance(NamedTuple):
    """The lines that may come at an instant, and those that were dropped since the last one."""

    lines: float
    at: float
    dropped: int


class LineLimit:
    """Drop lines about an object beyond the limit: a processor of structlog.

    The next line that is not dropped has the number of lines for which it stands, itself included, in `times`. Lines of
    level debug pass, and lines about no Pod, workload or named object.
    """

    def __init__(self) -> None:
        self._allowances: dict[tuple[str, str], _Allowance] = {}

    def __call__(self, _logger: Any, method: str, line: structlog.types.EventDict) -> structlog.types.EventDict:
        """Return the line. Raises `structlog.DropEvent`."""
        about, now = _object_of(line), _now()
        if method == "debug" or not about or now is None:
            return line
        key = (str(line.get("event")), about)
        lines, at, dropped = self._allowances.pop(key, _Allowance(BURST, now, 0))
        # Another event loop may have another clock, which is behind.
        lines = min(BURST, lines + (now - at) / EVERY_S) if now >= at else BURST
        is_dropped = lines < 1
        self._allowances[key] = _Allowance(lines, now, dropped + 1) if is_dropped else _Allowance(lines - 1, now, 0)
        while len(self._allowances) > KEPT:
            self._allowances.pop(next(iter(self._allowances)), None)
        if is_dropped:
            raise structlog.DropEvent
        if dropped:
            line["times"] = dropped + 1
        return line


def _object_of(line: structlog.types.EventDict) -> str:
    """Return the UID, key or name of the object of a line; "": the line is about none."""
    for key in ("uid", "workload", "pod"):
        if line.get(key):
            return str(line[key])[:LONGEST]
    return f"{line.get('namespace', '')}/{line['name']}"[:LONGEST] if line.get("name") else ""


def _now() -> float | None:
    """Return the time of the event loop; `None` outside of one, as in a thread, where no Pod is handled."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return None
