"""Read answers of slurmrestd as the session does, without sending anything; recorded ones to begin with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slurmclient.call import Agreement, Call
from slurmclient.capabilities import Release, capabilities_of
from slurmclient.endpoints import cluster, job_records, jobs, nodes
from slurmclient.models.description import JobDescription
from slurmclient.models.node import NewNode
from slurmclient.wire import CODECS
from slurmclient.wire.envelope import open_envelope
from slurmclient.wire.list_cache import ListCache

GOLDEN = Path(__file__).parents[1] / "unit" / "slurmclient" / "golden"
RECORDINGS = {
    name: json.loads((GOLDEN / f"{name}.json").read_text()) for name in ("v0.0.40-slurm-24.11", "v0.0.45-slurm-26.05")
}
NEWEST = "v0.0.45-slurm-26.05"
JOB_ID = 7
NODE = RECORDINGS[NEWEST]["nodes"]["nodes"][0]["name"]

CALLS: dict[str, Call[Any]] = {
    "ping": cluster.PING,
    "diag": cluster.DIAG,
    "partitions": cluster.PARTITIONS,
    "reservations": cluster.RESERVATIONS,
    "licenses": cluster.LICENSES,
    "shares": cluster.SHARES,
    "nodes": nodes.NODES,
    "jobs_state": jobs.job_states([]),
    "job": jobs.job(JOB_ID),
    "found": jobs.find_jobs_by_name("x"),
    "cancelled_unknown": jobs.cancel([JOB_ID], None, ()),
    "refused": jobs.cancel([JOB_ID], None, ()),
    "no_job": jobs.job(JOB_ID),
    "submitted": jobs.submit(JobDescription(script="#!/bin/sh", environment=("A=b",), current_working_directory="/")),
    "allocated": jobs.allocate(JobDescription(current_working_directory="/")),
    "updated": jobs.update_job(JOB_ID, JobDescription(comment="x")),
    "cancelled_by_name": jobs.cancel_by_name("x"),
    "resources": jobs.resources(JOB_ID),
    "node": nodes.node(NODE),
    "no_node": nodes.node(NODE),
    "new_node": nodes.new_node(NewNode(name="x", address="192.0.2.1", cpus=1)),
    "deleted_node": nodes.delete_node("x"),
    "job_record": job_records.job_record(JOB_ID),
    "conf": cluster.CONF,
    "associations": cluster.ASSOCIATIONS,
}

_SAME = {
    "allocated": "submitted",
    "cancelled_by_name": "cancelled_unknown",
    "node": "nodes",
    "new_node": "refused",
    "deleted_node": "refused",
}
"""Calls whose answer has the form of a recorded one."""

_NUMBER: dict[str, Any] = {"set": True, "infinite": False, "number": 1}
_SAMPLES: dict[str, dict[str, Any]] = {
    "job_record": {
        "jobs": [
            {
                "job_id": JOB_ID,
                "name": "x",
                "time": {"submission": 1, "end": 2},
                "derived_exit_code": {
                    "status": ["SIGNALED"],
                    "return_code": _NUMBER,
                    "signal": {"id": _NUMBER, "name": "TERM"},
                },
                "comment": {"job": "x"},
            }
        ]
    },
    "conf": {"slurm_conf": {"PreemptMode": ["OFF"], "PreemptType": "x", "GresTypes": ["gpu"]}},
    "associations": {
        "associations": [
            {
                "id": {"id": 1},
                "account": "x",
                "cluster": "x",
                "user": "x",
                "partition": "x",
                "parent_account": "x",
                "is_default": True,
                "default": {"qos": "x"},
                "qos": ["x"],
                "shares_raw": 1,
                "priority": _NUMBER,
                "max": {"jobs": {"active": _NUMBER, "total": _NUMBER}},
            }
        ]
    },
}
"""Answers that no recording has."""


def answer_of(recording: str, which: str) -> dict[str, Any]:
    """Return an answer to a call, short: recorded by this version, or by the newest one if it has no such call."""
    recorded, newest = RECORDINGS[recording], RECORDINGS[NEWEST]
    name = _SAME.get(which, which)
    if name in _SAMPLES:
        return _SAMPLES[name] | {key: newest["ping"][key] for key in ("meta", "errors", "warnings")}
    return short(recorded.get(name) or newest[name])


def agreement(name: str) -> Agreement:
    version = int(name.split("-", maxsplit=1)[0].rpartition(".")[2])
    release = Release.parse(RECORDINGS[name]["ping"]["meta"]["slurm"]["release"])
    return Agreement(CODECS[version], capabilities_of(version, release), "lab")


def short(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the same with the first entry of each of its lists, and the job under its id."""
    cut = {key: value[:1] if isinstance(value, list) else value for key, value in answer.items()}
    for job in cut.get("jobs") or ():
        job["job_id"] = JOB_ID
    return cut


def read(name: str, call: Call[Any], body: bytes, *, cache: ListCache | None = None, status: int = 200) -> object:
    """Process an answer as the session does, without sending anything."""
    opened = open_envelope if cache is None else cache.open
    envelope = opened("GET /x", status, "application/json", body)
    _ = envelope.release, envelope.cluster, envelope.unrouted, envelope.number
    if not call.accept(envelope):
        envelope.check(call.effect, call.not_found)
    return call.read(agreement(name), envelope)
