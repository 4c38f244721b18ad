"""Mark placeholder jobs as this extender's, and know the user whom Slurm is asked as."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from extender.domain.jobs.job import JobView, Mark
from extender.domain.jobs.ownership import caller_shown_by
from extender.domain.placeholder import Placeholder

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class JobIdentity:
    """This extender, as its jobs name it."""

    cluster: str
    scheduler: str
    epoch: int = 0
    """How often the right to write has changed hands before this process got it."""

    caller: int | None = None
    """The user of Slurm in whose name we ask; `None`: the site did not say who that is, and no job has told it yet."""

    def mark(self, key: str, attempt: int) -> Mark:
        """The mark of one attempt of a unit."""
        return Mark(self.cluster, self.scheduler, key, attempt, self.epoch)

    def owner_of_jobs(self, p: Placeholder) -> int | None:
        """The user for whom this unit's jobs are made; `None`: not known."""
        asked = p.asked or p.request
        if asked is None:
            return None
        return asked.run_as.uid if asked.run_as is not None else self.caller

    def learn_caller(self, p: Placeholder, job: JobView) -> None:
        """Where the site names the token's owner and Slurm's API takes numbers: any job made in that name has it."""
        if self.caller is None and (uid := caller_shown_by(job, p.asked or p.request)) is not None:
            self.caller = uid
            _log.info("token_user_known", user_id=uid, job_id=job.job_id)
