"""State words of jobs and nodes: one base word and any number of flags, as in `["RUNNING", "CONFIGURING"]`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class JobState(StrEnum):
    """Name the base states of a job (squeue(1), "JOB STATE CODES")."""

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
    """Defined here: the reply has no known base state."""

    @classmethod
    def of(cls, words: Iterable[str]) -> JobState:
        """Return the base state among the words of a job."""
        return next((_JOB_STATES[word] for word in words if word in _JOB_STATES), cls.UNKNOWN)

    @property
    def ended(self) -> bool:
        """Return whether the job has ended (it may still be COMPLETING)."""
        return self not in (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN)


class NodeState(StrEnum):
    """Name the base states of a node (scontrol(1), "NODE STATES")."""

    IDLE = "IDLE"
    ALLOCATED = "ALLOCATED"
    MIXED = "MIXED"
    DOWN = "DOWN"
    FUTURE = "FUTURE"
    ERROR = "ERROR"
    UNKNOWN = "UNKNOWN"
    """The node has not registered yet; also if the reply has no known base state."""

    @classmethod
    def of(cls, words: Iterable[str]) -> NodeState:
        """Return the base state among the words of a node."""
        return next((_NODE_STATES[word] for word in words if word in _NODE_STATES), cls.UNKNOWN)


_JOB_STATES = {state.value: state for state in JobState if state is not JobState.UNKNOWN}
_NODE_STATES = {state.value: state for state in NodeState}
