"""What one run is asked to do, and why it may not begin."""

from __future__ import annotations

from dataclasses import dataclass


class StillLedError(Exception):
    """An extender is at work; the text says who and what to do."""


class CannotLookError(Exception):
    """What there is cannot be read; nothing was done. The text says what and why."""


@dataclass(frozen=True, slots=True)
class HandBackOptions:
    """`force`: go on although an extender leads, and lift drains that keep Slurm off Pods without a job."""

    dry_run: bool = False
    force: bool = False
    keep_gates: bool = False
    cancel_running: bool = False
