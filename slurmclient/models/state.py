"""State words of jobs and nodes: one base word and any number of flags, as in ``["RUNNING", "CONFIGURING"]``."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class JobState(StrEnum):
    """The base states of a job (squeue(1), "JOB STATE CODES")."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    UNKNOWN = "UNKNOWN"
    """Not Slurm's: none of the words sent is a base state that this package knows."""

    @classmethod
    def of(cls, words: Iterable[str]) -> JobState:
        """Give the base state among the words of a job."""
        return next((_JOB_STATES[word] for word in words if word in _JOB_STATES), cls.UNKNOWN)

    @property
    def ended(self) -> bool:
        """Whether the job is over (it may still be COMPLETING)."""
        return self not in (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN)


class NodeState(StrEnum):
    """The base states of a node (scontrol(1), "NODE STATES")."""

    IDLE = "IDLE"
    ALLOCATED = "ALLOCATED"
    MIXED = "MIXED"
    DOWN = "DOWN"
    FUTURE = "FUTURE"
    ERROR = "ERROR"
    UNKNOWN = "UNKNOWN"
    """Slurm's own word before a node's first registration; also where no word sent is known here."""

    @classmethod
    def of(cls, words: Iterable[str]) -> NodeState:
        """Give the base state among the words of a node."""
        return next((_NODE_STATES[word] for word in words if word in _NODE_STATES), cls.UNKNOWN)


_JOB_STATES = {state.value: state for state in JobState if state is not JobState.UNKNOWN}
_NODE_STATES = {state.value: state for state in NodeState}
