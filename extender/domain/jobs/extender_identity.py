"""Mark placeholder jobs as this extender's, and know the user whose token its requests to Slurm carry."""

from __future__ import annotations

from dataclasses import dataclass

from extender.domain.jobs.job import JobView, Mark
from extender.domain.jobs.ownership import caller_shown_by, mark_of_orphan
from extender.domain.placeholder import Placeholder


@dataclass(slots=True)
class JobIdentity:
    """Name this extender in its jobs.

    `cluster` separates the jobs of this Kubernetes cluster from others; default: the UID of its namespace
    `kube-system`.
    """

    cluster: str
    scheduler: str
    epoch: int = 0
    """How often the Lease has changed hands before this process got it."""

    caller: int | None = None
    """The user that requests to Slurm run as; `None`: not configured, and not yet known from a job."""

    def mark(self, key: str, attempt: int) -> Mark:
        """Return the mark of one attempt of a workload."""
        return Mark(self.cluster, self.scheduler, key, attempt, self.epoch)

    def mark_on(self, job: JobView) -> tuple[Mark | None, bool]:
        """Return the mark of a job that names this extender, and whether it or one before it surely made the job."""
        return mark_of_orphan(job, self.mark("", 0), self.caller)

    def owner_of_jobs(self, p: Placeholder) -> int | None:
        """Return the user for whom this workload's jobs are made; `None`: not known."""
        request = p.submitted_request or p.request
        if request is None:
            return None
        return request.run_as.uid if request.run_as is not None else self.caller

    @staticmethod
    def user_submits(p: Placeholder) -> bool:
        """Return whether this workload's jobs run as a user of the site, who can also submit jobs."""
        request = p.submitted_request or p.request
        return request is not None and request.run_as is not None

    def learn_caller(self, p: Placeholder, job: JobView) -> bool:
        """Learn the user from a job of this workload, where the site names the token's owner by name only.

        Return whether it was not known before and is known now.
        """
        if self.caller is None:
            self.caller = caller_shown_by(job, p.submitted_request or p.request)
            return self.caller is not None
        return False
