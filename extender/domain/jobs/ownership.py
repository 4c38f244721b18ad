"""Prove that a job belongs to a workload. Such a job may be cancelled, so fields that any user can write prove nothing.

| field | can also be written by |
|---|---|
| mark in `admin_comment` | operators; slurmctld refuses it of a job's owner (2002) |
| mark in `extra` | the owner of any job, also as a copy of another job's |
| the workload's suffix in the name | the owner of any job |
| the job's user | no user |
| the id from the submission, or written on the Pod | no user; but slurmctld reuses ids after it lost its state |
"""

from __future__ import annotations

import re
from enum import StrEnum

from extender.domain.events import MemberRef
from extender.domain.jobs.identity import decode_mark, have_one_suffix, is_named_for
from extender.domain.jobs.job import JobRequest, JobView, Mark
from extender.domain.jobs.request_digests import same_but_for_what_follows

_FULL_NAME = re.compile(r"(?P<namespace>[a-z0-9][a-z0-9-]{0,62})/(?P<name>[a-z0-9][a-z0-9.-]{0,252})")
"""Namespaces are DNS labels, Pods' names DNS subdomains."""


class Proof(StrEnum):
    """Name the evidence that a job is a workload's."""

    MARK = "its mark"
    OWN_EXTRA = "its mark in extra alone"
    NAME = "its name alone"


def proof(job: JobView, workload: str, name: str, *, recorded: bool, owner: int | None) -> Proof | None:
    """Return the evidence that this job is the workload's; `None`: there is none, and the job must not be changed.

    `name` is the name of the workload's jobs. `recorded`: the job's id is known from its submission, or from the Pod.
    `owner` is the user for whom jobs of the workload are submitted, `None` if unknown: then only a mark that no owner
    can write proves a job of which no id is recorded.
    """
    written, shown = decode_mark(job.admin_comment), decode_mark(job.extra)
    if written is not None:
        return Proof.MARK if written.workload == workload else None
    if shown is not None and shown.workload != workload:
        return None
    named = have_one_suffix(job.name, name)
    if recorded:
        return Proof.OWN_EXTRA if shown is not None else Proof.NAME if named else None
    if not named or owner is None or job.user_id != owner:
        return None
    return Proof.OWN_EXTRA if shown is not None else Proof.NAME


def is_certain(job: JobView, *, recorded: bool, user_submits: bool) -> bool:
    """Return whether no other client can have created this job, of which `proof` gave evidence.

    `user_submits`: the job's user is a user of the site, who can submit jobs of the same name. Their jobs lack the mark
    in `admin_comment`, so a job that lacks it is the workload's only if no other job is found.
    """
    return recorded or not user_submits or decode_mark(job.admin_comment) is not None


def caller_shown_by(job: JobView, requested: JobRequest | None) -> int | None:
    """Return the extender's own Slurm user, as a placeholder job submitted without another user shows it, else `None`.

    Its mark must be where no owner can write it, and all else in its request must be the same as now.
    """
    written = decode_mark(job.admin_comment)
    if written is None or requested is None or requested.run_as is not None:
        return None
    return job.user_id if same_but_for_what_follows(written.request_digests, requested) else None


def pod_of(job: JobView, mark: Mark) -> MemberRef | None:
    """Return the Pod for which a job with this mark was made; `None`: neither the mark nor the job's name has it.

    Jobs of earlier releases have the Pod's name in their own, unless they were given another name.
    """
    named = _FULL_NAME.fullmatch(mark.pod or job.name.rpartition("-")[0])
    return None if named is None else MemberRef(mark.workload, named["namespace"], named["name"])


def mark_of_orphan(job: JobView, own: Mark, caller: int | None) -> tuple[Mark | None, bool]:
    """Return the mark of a job without a workload, if it names this cluster and scheduler, and whether it is proven.

    Without the copy that no owner can write, the job counts only if its name was made of the same workload and its user
    is `caller`, the token's owner, for whom nothing else submits jobs.
    """
    written, shown = decode_mark(job.admin_comment), decode_mark(job.extra)
    mark = written or shown
    if mark is None or (mark.cluster, mark.scheduler) != (own.cluster, own.scheduler):
        return None, False
    by_caller = caller is not None and job.user_id == caller
    return mark, written is not None or (
        by_caller and is_named_for(job.name, mark.cluster, mark.scheduler, mark.workload)
    )
