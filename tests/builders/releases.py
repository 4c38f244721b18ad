"""State that a release leaves in Slurm and Kubernetes, recorded once and read by every later one.

`python -m tests.builders.releases` records that of the code as it is, under `tests/fixtures/releases/VERSION`: once,
when it is released. A recording is never made again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from extender import __version__
from extender.domain.wellknown import GATE
from simulator.kube.pods import pod_key
from simulator.slurm.records import SimJob
from simulator.virtual_time import run_virtual
from tests.builders.process_site import Site, a_site

FOLDER = Path(__file__).parents[1] / "fixtures" / "releases"
BATCH = {"slurm-extender.io/mode": "batch"}
WISHES = BATCH | {"slurm-extender.io/comment": "for the paper", "slurm-extender.io/time-limit": "90"}
LONG_S = 3000
"""Grace of the Pod that outlives its job."""

Recording = dict[str, list[dict[str, Any]]]


async def left_behind(site: Site) -> Recording:
    """Let the extender of this code do its work and die in the middle of it; what is there then."""
    async with site.dying():
        for number in range(3):
            site.kube.add_pod(f"run-{number}", cpu="8", annotations=dict(WISHES), grace_s=LONG_S)
            await site.bound(f"run-{number}")
        site.kube.add_pod("waits", cpu="8", annotations=dict(WISHES))
        await site.until(lambda: bool(site.jobs_of("waits")), "its job")
        site.kube.add_pod("gated", cpu="8", annotations=dict(BATCH), gates=(GATE,))
        await site.until(lambda: bool(site.jobs_of("gated")), "its job")
        site.kube.add_pod("refused", cpu="8", annotations=dict(BATCH))
        await site.until(lambda: bool(site.jobs_of("refused")), "its job")
        site.slurm.controller.cancel(site.jobs_of("refused")[0].job_id)
        await site.until(
            lambda: "status.slurm-extender.io/cancelled" in site.pod("refused")["metadata"]["annotations"], "note"
        )
        site.kubelets.stop_s = LONG_S
        [lost] = site.jobs_of("run-2")
        site.slurm.controller.cancel(lost.job_id)
        await site.until(lambda: bool(site.drained()), "the drain of its node")
    return {
        "pods": [pod | {"status": pod["status"]} for pod in site.pods()],
        "jobs": [_job(job) for job in sorted(site.live_jobs(), key=lambda job: job.job_id)],
        "nodes": [
            {"name": node.name, "reason": node.reason} for node in site.slurm.controller.nodes.values() if node.drained
        ],
    }


async def take_place(site: Site, recording: Recording) -> None:
    """Make a site what the recording shows, with the same ids of jobs."""
    for pod in recording["pods"]:
        site.kube.storage.put(pod_key("default", pod["metadata"]["name"]), pod)
    jobs = {job["job_id"]: job for job in recording["jobs"]}
    for number in range(1, max(jobs) + 1):
        job = jobs.get(number)
        if job is None:  # one that is over by now
            assert await site.submit_as_another_user() == number
            site.slurm.controller.cancel(number)
            continue
        answer = await site.slurm_request("POST", "job/submit", {"job": job["submitted"]})
        assert answer["job_id"] == number
        if job["node"]:
            await site.until(lambda number=number: _state(site, number) == "RUNNING", f"job {number}")  # type: ignore[misc]
    for node in recording["nodes"]:
        await site.slurm_request("POST", f"node/{node['name']}", {"state": ["DRAIN"], "reason": node["reason"]})


def released() -> list[str]:
    """Return the versions of which there is a recording."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def recording_of(version: str) -> Recording:
    """Return the recording of a version."""
    folder = FOLDER / version
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def _state(site: Site, job_id: int) -> str:
    return next((job.state for job in site.jobs() if job.job_id == job_id), "")


def _job(job: SimJob) -> dict[str, Any]:
    environment = [f"{key}={value}" for key, value in sorted(job.environment.items())]
    submitted: dict[str, Any] = {
        "name": job.name,
        "partition": job.partition,
        "cpus_per_task": job.cpus_per_node,
        "tasks": 1,
        "memory_per_node": {"set": True, "number": job.memory_mb},
        "extra": job.extra,
        "admin_comment": job.admin_comment,
        "comment": job.comment,
        "current_working_directory": "/",
        "environment": environment or ["PATH=/bin"],
        "script": job.script,
        "excluded_nodes": list(job.excluded),
    }
    if job.time_limit_s is not None:
        submitted["time_limit"] = {"set": True, "number": int(job.time_limit_s // 60)}
    if job.nodes:
        submitted["required_nodes"] = list(job.nodes)
    return {"job_id": job.job_id, "state": job.state, "node": ",".join(job.nodes), "submitted": submitted}


async def _record() -> Recording:
    async with a_site() as site:
        return await left_behind(site)


def main() -> None:
    """Record this version. Raises `FileExistsError` where it was released already."""
    folder = FOLDER / __version__
    if folder.exists():
        raise FileExistsError(f"{folder}: this version was recorded already")
    found = run_virtual(_record())
    folder.mkdir(parents=True)
    for name, one in found.items():
        (folder / f"{name}.json").write_text(json.dumps(one, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
