"""Define the options of one run, and the errors that prevent it."""

from __future__ import annotations

from dataclasses import dataclass


class LeaderActiveError(Exception):
    """An extender leads; the text names it and says what to do."""


class InventoryError(Exception):
    """Objects cannot be read, and nothing was removed; the text says which and why."""


@dataclass(frozen=True, slots=True)
class UninstallOptions:
    """`force`: run although an extender leads, and remove drains that protect Pods without a job."""

    dry_run: bool = False
    force: bool = False
    keep_gates: bool = False
    cancel_running: bool = False
