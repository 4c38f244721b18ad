"""Find the Pod templates of a workload in a manifest, and how many Pods each of them makes.

Kinds that everyone has are read by their fields. In all others, such as custom resources, a map with `spec.containers`
is taken for a template; the search is bounded, since anyone may have written the file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from extender.kube.wire.fields import Fields, MalformedObject

DEEPEST_TEMPLATE = 16
"""Maps and lists around a template."""

MOST_SEARCHED = 20_000
"""Values of one object that are searched."""

MOST_TEMPLATES = 64
"""Templates of one object that are read."""

MOST_PODS = 2**31 - 1
"""What Kubernetes allows as a number of replicas; a larger product is shown as this."""

_COPIES = ("replicas", "parallelism")
"""Fields of an unknown kind that multiply what lies within the same map."""

_NOT_SEARCHED = frozenset({"metadata", "status", "kind", "apiVersion"})


class SearchStopped(Exception):
    """The object is too large to be searched; the text says in which respect."""


@dataclass(frozen=True, slots=True)
class PlacedTemplate:
    """One Pod template. `where` names it within its object; "" if the object has one only."""

    template: Mapping[str, Any]
    where: str = ""
    pods: int | None = 1
    """How many Pods are made of it; `None`: one for each matching Node."""

    beside: int | None = None
    """How many of them run beside each other at most; `None`: all."""

    job: Mapping[str, Any] | None = None
    """The batch/v1 Job that a CronJob or JobSet makes of it."""

    part: str = ""
    """The entry of a JobSet's `replicatedJobs`."""

    worker: bool = False
    """Of a LeaderWorkerSet: it makes the workers beside a leader with a template of its own."""

    searched: bool = False
    """It was found by its form, in a kind whose fields are not known."""


def templates_of(document: Mapping[str, Any], kind: str) -> list[PlacedTemplate]:
    """Return the templates of one object, in its order; none if it makes no Pods.

    Raises MalformedObject, and SearchStopped.
    """
    reader = _READERS.get(kind)
    found = [] if reader is None else list(reader(Fields(kind, document)))
    return found or _searched(document)


def _replicated(workload: Fields) -> Iterator[PlacedTemplate]:
    spec = workload.inner("spec")
    if "template" in spec:
        yield PlacedTemplate(spec.map("template"), pods=_count(spec, "replicas", 1))


def _daemon_set(workload: Fields) -> Iterator[PlacedTemplate]:
    spec = workload.inner("spec")
    if "template" in spec:
        yield PlacedTemplate(spec.map("template"), pods=None)


def _pod_template(workload: Fields) -> Iterator[PlacedTemplate]:
    if "template" in workload:
        yield PlacedTemplate(workload.map("template"))


def _job(workload: Fields) -> Iterator[PlacedTemplate]:
    spec = workload.inner("spec")
    if "template" in spec:
        pods, beside = _of_job(spec)
        yield PlacedTemplate(spec.map("template"), pods=pods, beside=beside)


def _cron_job(workload: Fields) -> Iterator[PlacedTemplate]:
    inner = workload.inner("spec").inner("jobTemplate")
    spec = inner.inner("spec")
    if "template" in spec:
        pods, beside = _of_job(spec)
        job = workload.inner("spec").map("jobTemplate")
        yield PlacedTemplate(spec.map("template"), pods=pods, beside=beside, job=job)


def _job_set(workload: Fields) -> Iterator[PlacedTemplate]:
    entries = workload.inner("spec").each("replicatedJobs", MOST_TEMPLATES)
    if len(entries) > MOST_TEMPLATES:
        raise SearchStopped(f"spec.replicatedJobs has more than {MOST_TEMPLATES} entries")
    for entry in entries:
        job = entry.inner("template")
        spec = job.inner("spec")
        if "template" not in spec:
            continue
        jobs, name = _count(entry, "replicas", 1), entry.text("name")
        pods, beside = _of_job(spec)
        yield PlacedTemplate(
            spec.map("template"),
            f"replicated job {name or 'without a name'}",
            min(MOST_PODS, jobs * pods),
            min(MOST_PODS, jobs * beside),
            entry.map("template"),
            name,
        )


def _leader_worker_set(workload: Fields) -> Iterator[PlacedTemplate]:
    spec = workload.inner("spec")
    groups, template = _count(spec, "replicas", 1), spec.inner("leaderWorkerTemplate")
    try:
        size = _count(template, "size", 1)
    except MalformedObject:
        size = 1  # the gang of these Pods is refused for it, with the name of its annotation
    leads = "leaderTemplate" in template
    if leads:
        yield PlacedTemplate(template.map("leaderTemplate"), "leader", groups)
    if "workerTemplate" in template:
        pods = min(MOST_PODS, groups * max(0, size - leads))
        yield PlacedTemplate(template.map("workerTemplate"), "workers" if leads else "", pods, worker=leads)


_READERS = {
    **dict.fromkeys(("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"), _replicated),
    "DaemonSet": _daemon_set,
    "Job": _job,
    "CronJob": _cron_job,
    "PodTemplate": _pod_template,
    "LeaderWorkerSet": _leader_worker_set,
    "JobSet": _job_set,
}


def _of_job(spec: Fields) -> tuple[int, int]:
    """Return how many Pods of a Job have to succeed, and how many run beside each other."""
    beside = _count(spec, "parallelism", 1)
    completions = spec.number("completions")
    if completions is None:
        return beside, beside
    pods = max(0, min(MOST_PODS, completions))
    return pods, min(beside, pods)


def _count(fields: Fields, key: str, default: int) -> int:
    """Return a number of copies; another form raises MalformedObject, since the API server would refuse it too."""
    number = fields.number(key)
    return default if number is None else max(0, min(MOST_PODS, number))


def _searched(document: Mapping[str, Any]) -> list[PlacedTemplate]:
    """Return every map with `spec.containers`, breadth first, and each with the copies that the maps around it ask."""
    found: list[PlacedTemplate] = []
    visited = 0
    waiting: deque[tuple[object, tuple[str, ...], int]] = deque([(document, (), 1)])
    while waiting:
        value, path, copies = waiting.popleft()
        visited += 1
        if visited > MOST_SEARCHED:
            raise SearchStopped(f"it has more than {MOST_SEARCHED} values")
        if isinstance(value, Mapping):
            if _is_template(value):
                _add(found, value, path, copies)
                continue
            copies = min(MOST_PODS, copies * _copies(value))
            inner = [(str(key), one) for key, one in value.items() if path or key not in _NOT_SEARCHED]
        elif isinstance(value, list):
            inner = [(str(at), one) for at, one in enumerate(value)]
        else:
            continue
        if len(path) >= DEEPEST_TEMPLATE and inner:
            raise SearchStopped(f"{'.'.join(path[:4])} is nested more than {DEEPEST_TEMPLATE} levels deep")
        if len(waiting) + len(inner) > MOST_SEARCHED:
            raise SearchStopped(f"it has more than {MOST_SEARCHED} values")
        waiting.extend((one, (*path, key), copies) for key, one in inner if isinstance(one, Mapping | list))
    return found


def _add(found: list[PlacedTemplate], template: Mapping[str, Any], path: tuple[str, ...], copies: int) -> None:
    if len(found) == MOST_TEMPLATES:
        raise SearchStopped(f"it has more than {MOST_TEMPLATES} Pod templates")
    found.append(PlacedTemplate(template, ".".join(path), copies, searched=True))


def _is_template(value: Mapping[str, Any]) -> bool:
    spec = value.get("spec")
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    return isinstance(containers, list) and bool(containers) and all(isinstance(one, Mapping) for one in containers)


def _copies(value: Mapping[str, Any]) -> int:
    found = 1
    for key in _COPIES:
        number = value.get(key)
        if type(number) is int and 0 <= number <= MOST_PODS:
            found *= number
    return found
