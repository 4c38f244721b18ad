"""Render the demo's table: Pods, jobs and nodes, and why each Pod waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from simulator.demo.changes import machine_state
from simulator.demo.environment import DemoEnvironment
from simulator.kube.objects import Json
from simulator.slurm.records import SimJob

Row = Sequence[str]


def render_table(
    stage: DemoEnvironment,
    placeholders: Iterable[Mapping[str, Any]],
    width: int,
    jobs_of_pods: Mapping[str, str] | None = None,
) -> str:
    """Return the state in lines of at most `width` characters; `placeholders` come from `/debug/placeholders`.

    `jobs_of_pods` are the jobs of Pods that the extender has forgotten.
    """
    by_pod = {name: one for one in placeholders for name in one["pods"]}
    known = jobs_of_pods or {}
    pods = [
        _pod(pod, by_pod.get(f"default/{pod['metadata']['name']}", {}), known.get(pod["metadata"]["name"], ""))
        for pod in stage.pods()
    ]
    jobs = [_job(stage, job) for job in stage.jobs()]
    nodes = [_node(stage, name) for name in stage.controller.nodes]
    parts = (
        _table(("POD", "PHASE", "NODE", "JOB", "WHY"), pods),
        _table(("JOB", "NAME", "OF", "PARTITION", "STATE", "NODE", "REASON"), jobs),
        _table(("MACHINE", "STATE", "CPUS IN USE", "REASON"), nodes),
    )
    return "\n\n".join("\n".join(line[:width].rstrip() for line in part) for part in parts) + "\n"


def _pod(pod: Json, placeholder: Mapping[str, Any], known_job: str) -> Row:
    meta, phase = pod["metadata"], pod["status"]["phase"]
    ending = "Terminating" if "deletionTimestamp" in meta else phase
    job = str(placeholder.get("jobId") or known_job)
    why = "" if phase in {"Succeeded", "Failed"} else str(placeholder.get("reason") or "")
    return (meta["name"], ending, pod["spec"].get("nodeName", ""), job, why)


def _job(stage: DemoEnvironment, job: SimJob) -> Row:
    reason = "" if job.reason == "None" else job.reason
    state = "+".join(job.words)
    whose = f"user {job.user_id}" if stage.is_native(job) else "a Pod"
    return (str(job.job_id), job.name, whose, job.partition, state, ",".join(job.nodes), reason)


def _node(stage: DemoEnvironment, name: str) -> Row:
    node = stage.controller.nodes[name]
    used = sum(job.cpus_per_node * job.times(name) for job in stage.jobs() if name in job.nodes and job.running)
    return (name, machine_state(stage, name), f"{used} of {node.cpus}", node.reason if node.drained else "")


def _table(head: Row, rows: Sequence[Row]) -> list[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return ["  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)) for row in (head, *rows)]
