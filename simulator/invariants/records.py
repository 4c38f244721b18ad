"""Read jobs and Pods of the simulation: which belong together, and how a placeholder job ended."""

from __future__ import annotations

from dataclasses import dataclass

from extender.domain.jobs.identity import decode_mark
from extender.domain.wellknown import JOB_ID
from simulator.kube.objects import Json
from simulator.kube.pods import FINISHED_PHASES
from simulator.slurm.records import SimJob


@dataclass(slots=True)
class JobEnd:
    """The end of a placeholder job."""

    at: float
    state: str
    announced: bool
    """Whether a batch script held the nodes or a warning came first."""


def workload_of(job: SimJob) -> str:
    """Return the key of the workload of a placeholder job, "" for a native job."""
    mark = decode_mark(job.admin_comment) or decode_mark(job.extra)
    return mark.workload if mark is not None else ""


def job_id_of(pod: Json) -> int:
    """Return the id of the job that a Pod was given, 0 for none."""
    text = (pod["metadata"].get("annotations") or {}).get(JOB_ID, "")
    return int(text) if text.isdecimal() else 0


def occupies_node(pod: Json) -> bool:
    """Return whether a Pod is bound and its containers may run."""
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] not in FINISHED_PHASES
