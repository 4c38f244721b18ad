"""Write times as the API server stores them (`metav1.Time`): RFC 3339, in UTC, in whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(seconds: float) -> str:
    """Return a time, in seconds since the epoch, as `2030-01-31T08:00:00Z`; fractions are cut off."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
