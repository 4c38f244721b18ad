"""Define how placeholders are read, and how events are sent to them.

Only the engine can change a placeholder: all other components have `Placeholders`, which has no method for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Protocol

from extender.domain.events import Event
from extender.domain.placeholder import Placeholder, State

EmitEvent = Callable[[str, Event, str], None]
"""Send an event to a placeholder: the workload's key, what happened, and how it is known, for the history.

It is the type of `Engine.handle`. What follows from the event is handled before that returns, or right after the event
that is being handled.
"""


class Placeholders(Protocol):
    """Read placeholders by workload, Pod, job and state. `PlaceholderIndex` implements it."""

    @property
    def all(self) -> Mapping[str, Placeholder]:
        """Return every placeholder by its workload's key."""
        ...

    @property
    def jobs(self) -> Set[int]:
        """Return the jobs whose state matters to some placeholder."""
        ...

    @property
    def queued(self) -> Mapping[str, int]:
        """Return how many placeholders wait in Slurm, by the partition as they requested it."""
        ...

    @property
    def placed_without_job(self) -> Set[str]:
        """Return the keys of workloads with Pods on Nodes whose job is not known yet."""
        ...

    def get(self, key: str) -> Placeholder | None:
        """Return a workload's placeholder."""
        ...

    def namespace_of(self, key: str) -> str:
        """Return the namespace of a workload's Pods; "" for a workload that is not known."""
        ...

    def workload_of_pod(self, uid: str) -> str | None:
        """Return the key of the workload of which this Pod is a member."""
        ...

    def by_pod(self, uid: str) -> Placeholder | None:
        """Return the placeholder of which this Pod is a member."""
        ...

    def workload_of_job(self, job_id: int) -> str | None:
        """Return the key of the workload whose job this is, duplicate jobs included.

        Where several name it, it is that of the one which has read the job, and else of the latest.
        """
        ...

    def workloads_of_job(self, job_id: int) -> tuple[str, ...]:
        """Return the keys of all workloads that take this job for theirs."""
        ...

    def by_job(self, job_id: int) -> Placeholder | None:
        """Return the placeholder whose job this is, the latest where more than one takes it for theirs."""
        ...

    def all_by_job(self, job_id: int) -> list[Placeholder]:
        """Return the placeholders of all workloads that take this job for theirs."""
        ...

    def in_state(self, *states: State) -> list[Placeholder]:
        """Return the placeholders in these states now."""
        ...

    def many_being_placed(self) -> bool:
        """Return whether so many workloads are being submitted or bound that Events about them should wait."""
        ...
