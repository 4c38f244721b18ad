"""Limit the lines of the log about objects: authors can change Pods without a limit, and each change may be a line."""

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

NAMESPACE_BURST, NAMESPACE_A_SECOND = 1000, 50.0
"""Lines about the objects of one namespace that may come at once, and after that in a second."""

NAMESPACES_KEPT = 1024
"""Namespaces that are remembered."""

TOTAL_BURST, TOTAL_A_SECOND = 4000, 200.0
"""The same for the objects of all namespaces together."""

ERROR_BURST, ERRORS_A_SECOND = 200, 10.0
"""The same for errors about objects, which other lines never displace."""

LONGEST = 512
"""Characters that count of the name of an object."""


class _Allowance(NamedTuple):
    """The lines that may come at an instant, and those that were dropped since the last one."""

    lines: float
    at: float
    dropped: int


class _Bucket:
    """Count the lines of many objects: `burst` at once, `rate` in a second after that."""

    def __init__(self, burst: int, rate: float) -> None:
        self._burst = burst
        self._rate = rate
        self._lines = float(burst)
        self._at = 0.0
        self.dropped = 0
        """Lines that were dropped since the last one that was not."""

    def has_room(self, now: float) -> bool:
        """Return whether one more line may come now."""
        # Another event loop may have another clock, which is behind.
        more = (now - self._at) * self._rate if now >= self._at else self._burst
        self._lines, self._at = min(self._burst, self._lines + more), now
        return self._lines >= 1

    def take(self) -> int:
        """Count one line, and return how many were dropped before it."""
        self._lines -= 1
        dropped, self.dropped = self.dropped, 0
        return dropped


class LineLimit:
    """Drop lines about objects beyond the limits: a processor of structlog.

    There are three limits: for the lines with one `msg` about one object, for all lines about the objects of one
    namespace, and for those of all namespaces. The last one holds however many objects there are. A line that passes
    has in `times` the number of lines with its `msg` about its object for which it stands, itself included. It has in
    `suppressed` the number of lines that the other limits dropped before it. An error counts to a limit of its own.

    These pass: lines of level debug and critical, and lines that name no Pod, workload, job or other object. Lines
    about the extender itself name none.
    """

    def __init__(self) -> None:
        self._allowances: dict[tuple[str, str], _Allowance] = {}
        self._namespaces: dict[str, _Bucket] = {}
        self._total = _Bucket(TOTAL_BURST, TOTAL_A_SECOND)
        self._errors = _Bucket(ERROR_BURST, ERRORS_A_SECOND)

    def __call__(self, _logger: Any, method: str, line: structlog.types.EventDict) -> structlog.types.EventDict:
        """Return the line. Raises `structlog.DropEvent`."""
        about, now = _object_of(line), _now()
        if method in {"debug", "critical"} or not about or now is None:
            return line
        times = self._of_object((str(line.get("event")), about), now)
        buckets = [self._errors] if method in {"error", "exception"} else [self._namespace(line), self._total]
        full = next((one for one in buckets if not one.has_room(now)), None)
        if full is not None:
            full.dropped += times  # also the lines for which this one would have stood
            raise structlog.DropEvent
        if suppressed := sum(one.take() for one in buckets):
            line["suppressed"] = suppressed
        if times > 1:
            line["times"] = times
        return line

    def _of_object(self, key: tuple[str, str], now: float) -> int:
        """Return for how many lines about its object this one stands. Raises `structlog.DropEvent`."""
        lines, at, dropped = self._allowances.pop(key, _Allowance(BURST, now, 0))
        # Another event loop may have another clock, which is behind.
        lines = min(BURST, lines + (now - at) / EVERY_S) if now >= at else BURST
        is_dropped = lines < 1
        self._allowances[key] = _Allowance(lines, now, dropped + 1) if is_dropped else _Allowance(lines - 1, now, 0)
        while len(self._allowances) > KEPT:
            self._total.dropped += self._allowances.pop(next(iter(self._allowances))).dropped
        if is_dropped:
            raise structlog.DropEvent
        return dropped + 1

    def _namespace(self, line: structlog.types.EventDict) -> _Bucket:
        """Return the bucket of the namespace that a line names; lines that name none share one."""
        namespace = _namespace_of(line)
        bucket = self._namespaces.pop(namespace, None) or _Bucket(NAMESPACE_BURST, NAMESPACE_A_SECOND)
        self._namespaces[namespace] = bucket
        while len(self._namespaces) > NAMESPACES_KEPT:
            oldest = self._namespaces.pop(next(iter(self._namespaces)))
            self._total.dropped += oldest.dropped
        return bucket


def _object_of(line: structlog.types.EventDict) -> str:
    """Return the UID, key, name or job of the object of a line; "": the line is about none."""
    for key in ("uid", "workload", "pod"):
        if line.get(key):
            return str(line[key])[:LONGEST]
    if name := line.get("name") or line.get("group"):
        return f"{line.get('namespace', '')}/{name}"[:LONGEST]
    return f"job {line['job_id']}"[:LONGEST] if line.get("job_id") else ""


def _namespace_of(line: structlog.types.EventDict) -> str:
    """Return the namespace of the object of a line; "": the line does not name it."""
    if line.get("namespace"):
        return str(line["namespace"])[:LONGEST]
    pod = line.get("pod")
    first = pod[0] if isinstance(pod, list | tuple) and pod else pod
    return first[:LONGEST].partition("/")[0] if isinstance(first, str) else ""


def _now() -> float | None:
    """Return the time of the event loop; `None` outside of one, as in a thread, where no Pod is handled."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return None
