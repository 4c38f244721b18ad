"""What a grant or a Binding of ours wrote on a Pod: which job, which node, and for which Pod.

The Pod's UID is beside them: whoever copies a Pod's manifest copies its annotations too. Pods that were bound by a
release before this one bear none; theirs are believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from extender.domain.wellknown import JOB_ID, NODE, POD, SLURM_NODE, WOKEN

MOST = 2**32 - 1
"""slurmctld's job ids have 32 bits (`slurm.h`)."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The job and the Kubernetes node that a Pod says it has. `foreign`: what is written speaks of another Pod.

    `slurm_node` is Slurm's own name of that node when the Pod was bound; "": not bound yet, or by an earlier release.
    """

    job_id: int | None = None
    node: str = ""
    foreign: bool = False
    slurm_node: str = ""

    def job_on(self, node: str) -> int | None:
        """The job for which we bound the Pod to this node; what a grant wrote stays on a Pod that others bind."""
        return self.job_id if node and self.node in {"", node} else None


def written_claim(job_id: int | None, node: str, uid: str, slurm_node: str = "") -> dict[str, str]:
    """The annotations for the Pod with this UID; `slurm_node` where it is bound."""
    given = {SLURM_NODE: slurm_node} if slurm_node else {}
    return {JOB_ID: str(job_id), NODE: node, POD: uid, **given}


def woken_at(wall: float) -> dict[str, str]:
    """The annotation for a Pod that kube-scheduler is to try again, though nothing else changes on it."""
    return {WOKEN: datetime.fromtimestamp(int(wall), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def read_claim(annotations: Mapping[str, str], uid: str) -> Claim:
    """What the annotations say of the Pod with this UID. Whatever is no id of a job says nothing."""
    if annotations.get(POD, uid) != uid:
        return Claim(foreign=True)
    text = annotations.get(JOB_ID, "")
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(MOST)) else 0
    known = number if 0 < number <= MOST else None
    return Claim(known, annotations.get(NODE, ""), slurm_node=annotations.get(SLURM_NODE, ""))
