"""Observe the demo's state, and say in sentences how it changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from simulator.demo.environment import DemoEnvironment
from simulator.kube.objects import Json
from simulator.slurm.serialization import node_words

NEWEST_API = 45


@dataclass(frozen=True, slots=True)
class PodSight:
    """A Pod as it is now. `job` stays known after its end."""

    phase: str
    node: str = ""
    job: str = ""
    why_ended: str = ""
    grace_s: int | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """The whole state."""

    pods: Mapping[str, PodSight] = field(default_factory=dict)
    jobs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Native jobs: state and nodes, by `job 7 train-1`."""

    machines: Mapping[str, str] = field(default_factory=dict)
    """State in Slurm's words."""


def observe(stage: DemoEnvironment, placeholders: Iterable[Mapping[str, Any]], before: Sight) -> Sight:
    """Return the state now. `before` knows the jobs of Pods that have ended."""
    by_pod = {name: one for one in placeholders for name in one["pods"]}
    return Sight(
        {pod["metadata"]["name"]: _pod(pod, by_pod, before) for pod in stage.pods()},
        {
            f"job {job.job_id} {job.name}": ("+".join(job.words), ",".join(job.nodes))
            for job in stage.jobs()
            if stage.is_native(job)
        },
        {name: machine_state(stage, name) for name in stage.controller.nodes},
    )


def machine_state(stage: DemoEnvironment, name: str) -> str:
    """Return the state of a machine as Slurm's API shows it: `ALLOCATED`, `MIXED+DRAIN`."""
    return "+".join(node_words(stage.controller.nodes[name], stage.controller, NEWEST_API))


def changes(before: Sight, after: Sight) -> Iterator[str]:
    """Yield a sentence for each change."""
    for name, pod in after.pods.items():
        if (said := _pod_change(name, before.pods.get(name), pod)) is not None:
            yield said
    for name, pod in before.pods.items():
        if name not in after.pods:
            yield f"Pod {name} is gone{f', job {pod.job} with it' if pod.job else ''}"
    for name, (state, nodes) in after.jobs.items():
        was = before.jobs.get(name, ("", ""))[0]
        if state != was:
            yield f"{name} {_job_words(state, nodes)}"
    for name in before.jobs:
        if name not in after.jobs:
            yield f"{name} has ended"
    for name, state in after.machines.items():
        drained = "DRAIN" in state
        if name in before.machines and drained != ("DRAIN" in before.machines[name]):
            yield f"machine {name} is {state}" if drained else f"machine {name} is resumed"


def _pod(pod: Json, by_pod: Mapping[str, Mapping[str, Any]], before: Sight) -> PodSight:
    meta = pod["metadata"]
    found = by_pod.get(f"{meta['namespace']}/{meta['name']}", {})
    last = before.pods.get(meta["name"], PodSight(""))
    sight = PodSight(str(pod["status"]["phase"]), pod["spec"].get("nodeName", ""), str(found.get("jobId") or last.job))
    if "deletionTimestamp" not in meta:
        return sight
    conditions = pod["status"].get("conditions") or ()
    reason = next((one.get("reason", "") for one in conditions if one.get("type") == "DisruptionTarget"), "")
    return replace(sight, phase="Terminating", why_ended=reason, grace_s=meta.get("deletionGracePeriodSeconds"))


def _pod_change(name: str, was: PodSight | None, now: PodSight) -> str | None:
    if was is None or (now.phase == "Pending" and now.job != was.job):
        return f"Pod {name} waits{f' as Slurm job {now.job}' if now.job else ''}"
    if now.phase == "Terminating" and was.phase != "Terminating":
        why = f" ({now.why_ended})" if now.why_ended else ""
        grace = f", {now.grace_s} s grace" if now.grace_s is not None else ""
        return f"Pod {name} gets SIGTERM{why}{grace}"
    if now.phase != was.phase and now.phase == "Running":
        return f"Pod {name} runs on {now.node}{f', job {now.job}' if now.job else ''}"
    if now.phase != was.phase and now.phase in {"Succeeded", "Failed"}:
        return f"Pod {name} has {now.phase.lower()}"
    return None


def _job_words(state: str, nodes: str) -> str:
    if state.startswith("PENDING"):
        return "waits"
    return f"runs on {nodes}" if state == "RUNNING" else f"is {state}"
