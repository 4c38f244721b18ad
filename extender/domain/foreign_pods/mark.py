"""Write and read the mark of a foreign Pod's job.

The mark has a key of its own, so that the job is not taken for a placeholder job: it belongs to no workload, is no
orphaned job, and the fence script does not hold its node.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from extender.domain.jobs.identity import NAME_LIMIT, job_name
from extender.domain.jobs.job import JobView

_VERSION_KEY = "slurm-extender-foreign-pod"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class ForeignPodMark:
    """Name the foreign Pod of a job. `node` and `size` are the requested ones; Slurm may have rounded up."""

    cluster: str
    scheduler: str
    uid: str
    node: str
    size: str
    pod: str = ""
    """`namespace/name`; "" if there was no room for it."""


def foreign_pod_name(pod: str, cluster: str, scheduler: str, uid: str) -> str:
    """Return the name of a Pod's jobs: the Pod's name, and a suffix that no other Pod and no workload has."""
    return job_name(pod, cluster, scheduler, f"foreign Pod {uid}")


def encode_foreign_pod_mark(mark: ForeignPodMark) -> str:
    """Return the mark as one line of ASCII JSON, for a job's `extra` and `admin_comment`.

    Raises `ValueError` if slurmctld could not store it.
    """
    content: dict[str, object] = {
        _VERSION_KEY: _VERSION,
        "c": mark.cluster,
        "s": mark.scheduler,
        "u": mark.uid,
        "n": mark.node,
        "z": mark.size,
    }
    if mark.pod:
        content["p"] = mark.pod
    text = json.dumps(content, separators=(",", ":"))
    if len(text) > NAME_LIMIT and mark.pod:
        return encode_foreign_pod_mark(replace(mark, pod=""))
    if len(text) > NAME_LIMIT:
        raise ValueError(
            f"the mark of foreign Pod {mark.uid} has {len(text)} bytes; slurmctld stores at most {NAME_LIMIT}"
        )
    return text


def decode_foreign_pod_mark(text: str) -> ForeignPodMark | None:
    """Return the mark in `text`; `None`: it has none of an extender. Operators may have added text around it."""
    at = text.find(f'{{"{_VERSION_KEY}"')
    if at < 0:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get(_VERSION_KEY) != _VERSION:
        return None
    words: list[Any] = [found.get(key) for key in "csunz"]
    pod = found.get("p", "")
    if not all(type(word) is str for word in (*words, pod)):
        return None
    return replace(ForeignPodMark(*words), pod=pod)


def foreign_pod_mark_of(job: JobView) -> ForeignPodMark | None:
    """Return the mark that proves a job a foreign Pod's: in `admin_comment`, which no owner of a job can write."""
    return decode_foreign_pod_mark(job.admin_comment)
