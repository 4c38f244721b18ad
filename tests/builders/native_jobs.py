"""Native jobs, on the real parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.errors import LabError
from lab.site import Site


def submit_native_job(
    site: Site,
    partition: str,
    *,
    cpus: int,
    nodes: Sequence[str] = (),
    external: bool = False,
    requeue: bool = False,
    gpus: int = 0,
    script: Sequence[str],
) -> int:
    """Submit a job that fills `cpus` of one node; returns its id. `script`: its lines, where it may have one."""
    job: dict[str, Any] = {
        "name": "native",
        "partition": partition,
        "tasks": 1,
        "cpus_per_task": cpus,
        "minimum_nodes": 1,
        "maximum_nodes": 1,
        "memory_per_node": {"set": True, "number": 1000},
        "current_working_directory": "/",
        "environment": ["PATH=/usr/bin:/bin"],
        "requeue": requeue,
    }
    if gpus:
        job["tres_per_node"] = f"gres/gpu:{gpus}"
    if nodes:
        job["required_nodes"] = list(nodes)
    if external:
        job["flags"] = ["EXTERNAL_JOB"]  # which refuses a script (2189)
    else:
        job |= {
            "script": "\n".join(("#!/bin/sh", *script, "")),
            "standard_output": "/dev/null",
            "standard_error": "/dev/null",
        }
    status, answer = site.slurm.rest("POST", "job/submit", {"job": job})
    if status != 200 or not answer.get("job_id"):
        raise LabError(f"a native job was refused ({status}): {answer.get('errors')}")
    return int(answer["job_id"])
