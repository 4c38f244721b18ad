"""List jobs without a Pod and Pods without a job from `/debug/orphans`, with the action for each."""

from __future__ import annotations

from typing import Any

from kubectl_slurm.age import span
from kubectl_slurm.debug import objects

Json = dict[str, Any]

_OF_JOBS = {
    "found": "none: it is ended after orphans.gracePeriod, unless its Pod appears; `scancel {job}` ends it now",
    "held": "check whether Pods are missing, since many jobs lost theirs at once: all jobs end after "
    "orphans.massGracePeriod; if the Pods are gone, SIGUSR1 to the leader ends the jobs now",
    "ended": "none: it is being ended",
    "spared": "none: the API server has its Pod, but not in its lists; check its caches if this lasts",
    "would_be_ended": "`scancel {job}`, since orphans.dryRun is on and nothing is ended",
}
_OF_FINISHED = "none: its Pod has ended, and it is being ended"
_UNKNOWN = "see docs/reference/bad-input.md; `scancel {job}` ends it"
_OF_PODS = (
    "`squeue -j {job}`: if Slurm lost its jobs, restore them or send SIGUSR1 to the leader, which then ends the "
    "Pod; `kubectl delete pod` ends it now"
)
_OF_PODS_DRY = "`kubectl delete pod`, since orphans.dryRun is on and nothing is ended"


def rows_of(orphans: Json) -> list[Json]:
    """Return one row for each."""
    dry = bool(orphans.get("dryRun"))
    jobs = [_of_job(one) for one in objects(orphans.get("jobs"))]
    return jobs + [_of_pod(one, dry) for one in objects(orphans.get("pods"))]


def _of_job(one: Json) -> Json:
    job, state, seconds = one.get("jobId"), str(one.get("said", "")), one.get("seconds")
    pod_finished = bool(one.get("podFinished")) and state != "would_be_ended"
    todo = _OF_FINISHED if pod_finished else _OF_JOBS.get(state, _UNKNOWN)
    return {
        "name": f"job-{job}",
        "kind": "job",
        "job": job,
        "workload": one.get("workload", ""),
        "state": state,
        "age": span(seconds) if isinstance(seconds, int | float) else "",
        "action": todo.format(job=job),
    }


def _of_pod(one: Json, dry: bool) -> Json:
    job, pods = one.get("jobId"), one.get("pods")
    return {
        "name": ",".join(map(str, pods)) if isinstance(pods, list) else str(one.get("key", "")),
        "kind": "pod",
        "job": job,
        "workload": one.get("key", ""),
        "state": one.get("state", ""),
        "age": "",
        "action": (_OF_PODS_DRY if dry else _OF_PODS).format(job=job),
    }
