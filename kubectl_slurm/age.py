"""Instants and spans as kubectl prints them."""

from __future__ import annotations

from datetime import UTC, datetime

MINUTE, HOUR, DAY = 60, 3600, 86400


def instant(seconds: float) -> str:
    """Format an instant for users and programs: RFC 3339, whole seconds."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def seconds_of(text: str) -> float | None:
    """Return seconds since 1970 of an RFC 3339 text of the API server; `None`: it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def age(created: str, now: float | None) -> str:
    """Return the age of an object; "" if it is not known."""
    then = seconds_of(created)
    return "" if then is None or now is None else span(now - then)


def span(seconds: float) -> str:
    """Write a duration as `HumanDuration` of `apimachinery/pkg/util/duration/duration.go` does."""
    whole = int(seconds)
    if whole < 0:  # clocks differ by a moment
        return "0s"
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if whole < 10 * MINUTE:
        return _two(whole, MINUTE, "m", 1, "s")
    if whole < 3 * HOUR:
        return f"{whole // MINUTE}m"
    if whole < 8 * HOUR:
        return _two(whole, HOUR, "h", MINUTE, "m")
    if whole < 2 * DAY:
        return f"{whole // HOUR}h"
    if whole < 8 * DAY:
        return _two(whole, DAY, "d", HOUR, "h")
    if whole < 2 * 365 * DAY:
        return f"{whole // DAY}d"
    if whole < 8 * 365 * DAY:
        return _two(whole, 365 * DAY, "y", DAY, "d")
    return f"{whole // (365 * DAY)}y"


def _two(whole: int, unit: int, name: str, smaller: int, of_smaller: str) -> str:
    rest = whole % unit // smaller
    return f"{whole // unit}{name}" + (f"{rest}{of_smaller}" if rest else "")
