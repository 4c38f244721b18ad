"""Associations and fair shares."""

from __future__ import annotations

from dataclasses import dataclass

from slurmclient.models.job import ExitCode
from slurmclient.number import Infinite


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """Describe an account on a cluster, or a user of an account (sacctmgr(1)); from slurmdbd.

    Attributes:
        id: of the association; None if the reply does not contain it.
        account: name.
        cluster: name.
        user: empty for the account itself.
        partition: empty unless it holds for one partition only.
        parent_account: of an account.
        is_default: the account that the user's jobs are charged to if they name none.
        default_qos: for its jobs.
        qos: allowed for its jobs.
        shares: raw fair share.
        priority: of its jobs.
        max_jobs: that may run at a time.
        max_submit_jobs: that may wait and run at a time.
    """

    id: int | None
    account: str
    cluster: str
    user: str
    partition: str
    parent_account: str
    is_default: bool
    default_qos: str
    qos: tuple[str, ...]
    shares: int | None
    priority: int | Infinite | None
    max_jobs: int | Infinite | None
    max_submit_jobs: int | Infinite | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Describe one line of sshare(1).

    Attributes:
        id: of the association; None if the reply does not contain it.
        name: account or user.
        parent: account.
        cluster: name.
        partition: empty unless it holds for one partition only.
        is_user: a user, else an account.
        shares: raw; INFINITE means those of the parent.
        shares_normalized: share of the whole, 0 … 1.
        usage: raw, decayed.
        usage_normalized: share of the whole usage.
        effective_usage: including that of the parents.
        fairshare_factor: 0 … 1, the part of the priority of a job.
        fairshare_level: as the Fair Tree algorithm ranks it.
    """

    id: int | None
    name: str
    parent: str
    cluster: str
    partition: str
    is_user: bool
    shares: float | Infinite | None
    shares_normalized: float | Infinite | None
    usage: float | Infinite | None
    usage_normalized: float | Infinite | None
    effective_usage: float | Infinite | None
    fairshare_factor: float | Infinite | None
    fairshare_level: float | Infinite | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """Describe a job as slurmdbd keeps it (sacct(1)).

    Attributes:
        job_id: number; Slurm gives it to another job after its state was lost.
        name: of the job.
        submitted_at: seconds since the epoch; 0 if unknown.
        ended_at: seconds since the epoch; 0 until slurmdbd knows the end.
        derived_exit_code: the highest exit code of the steps, or what was written since.
        comment: of the job's owner.
    """

    job_id: int
    name: str
    submitted_at: int
    ended_at: int
    derived_exit_code: ExitCode
    comment: str
