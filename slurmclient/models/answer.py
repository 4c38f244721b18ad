"""Answers to requests that create, change or end something."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SlurmWarning:
    """Report a problem with a request that Slurm executed.

    Attributes:
        description: the text of Slurm.
        source: the field or function concerned.
    """

    description: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitResult:
    """Describe a job that exists now.

    Attributes:
        job_id: of the new job. slurmctld reuses ids after it has lost its state: check name or mark before trusting
            one.
        warnings: e.g. a field that was ignored, or why the job cannot start yet.
        user_message: the message of the job_submit plugin to the user.
    """

    job_id: int
    warnings: tuple[SlurmWarning, ...] = ()
    user_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelStatus:
    """Report the result for one job of a cancellation.

    Attributes:
        job_id: the job.
        code: 0 signalled, 2021 had already ended, 2017 unknown, 2002 not allowed, 2020 in no state for this signal.
        message: the text of Slurm.
    """

    job_id: int
    code: int
    message: str = ""

    @property
    def job_ended(self) -> bool:
        """Return whether nothing is left to cancel: signalled, already ended, or unknown."""
        return self.code in (0, 2017, 2021)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """Describe a live job that was found by its name.

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
        """Return whether the job waits."""
        return not self.running
