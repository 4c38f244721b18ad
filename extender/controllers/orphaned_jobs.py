"""Keep the live placeholder jobs that no workload has."""

from __future__ import annotations

from dataclasses import dataclass

from extender.domain.events import JobFound
from extender.domain.jobs.checkpoint import Checkpoint, PodAbsence


@dataclass(slots=True)
class OrphanedJob:
    """A live placeholder job without a workload. `finished`: its Pod exists and has ended."""

    workload: str
    since: float
    found: JobFound
    finished: bool = False
    left: bool = False
    """Its Pod was seen to leave."""

    excused: bool = False
    """An administrator confirmed its end."""

    logged: str = ""
    """The last state in the log."""

    end_requests: int = 0
    """How often its end was asked."""

    namespace: str = ""
    """That of its Pod, as the job says; "": not known."""

    nodes: tuple[str, ...] = ()
    """The Slurm nodes of the job, as it was read."""

    checkpoint: Checkpoint | None = None
    """The one that its mark names, where no owner of a job can write it."""

    absence: PodAbsence | None = None
    """The reason why its Pod is absent; `None`: not classified yet."""

    not_before: float = 0.0
    """When it may be tried again."""

    @property
    def explained(self) -> bool:
        """Return whether its end needs no checkpoint."""
        return self.finished or self.left or self.excused


class OrphanedJobs:
    """Orphaned jobs by their number. `OrphanController` writes them."""

    def __init__(self) -> None:
        self.by_id: dict[int, OrphanedJob] = {}

    def has_job_of(self, workload: str) -> bool:
        """Return whether a job of this workload was found that it does not have."""
        return any(orphan.workload == workload for orphan in self.by_id.values())
