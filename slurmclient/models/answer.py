"""What Slurm answers to a request that makes, changes or ends something."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SlurmWarning:
    """Something Slurm wished to say about a request that it carried out.

    Attributes:
        description: Slurm's words.
        source: the field or function it speaks of.
    """

    description: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitResult:
    """A job that exists now.

    Attributes:
        job_id: of the new job. Ids are given out again when slurmctld loses its state: check name or mark before
            trusting one.
        warnings: e.g. a field that was ignored, or why the job cannot start yet.
        user_message: what the site's job_submit plugin says to the user.
    """

    job_id: int
    warnings: tuple[SlurmWarning, ...] = ()
    user_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelStatus:
    """What became of one job of a cancellation.

    Attributes:
        job_id: the job.
        code: 0 signalled, 2021 had already ended, 2017 unknown, 2002 not allowed, 2020 in no state for this signal.
        message: Slurm's words.
    """

    job_id: int
    code: int
    message: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing is left to cancel: signalled, already ended, or unknown."""
        return self.code in (0, 2017, 2021)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """A live job found by its name.

    Attributes:
        job_id: of the job.
        running: it has an allocation (RUNNING, or SUSPENDED).
        code: Slurm's answer to the probe: 0 for a job with a script that can be signalled, 2009 for one without a
            script, 2020 for one that waits.
    """

    job_id: int
    running: bool
    code: int = field(default=0)

    @property
    def pending(self) -> bool:
        """It waits."""
        return not self.running
