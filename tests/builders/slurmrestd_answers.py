"""Read answers of slurmrestd as the session does, without sending anything; recorded ones to begin with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slurmclient.call import Agreement, Call
from slurmclient.capabilities import Release, capabilities_of
from slurmclient.endpoints import cluster, jobs, nodes
from slurmclient.wire import CODECS
from slurmclient.wire.envelope import open_envelope
from slurmclient.wire.list_cache import ListCache

GOLDEN = Path(__file__).parents[1] / "unit" / "slurmclient" / "golden"
RECORDINGS = {
    name: json.loads((GOLDEN / f"{name}.json").read_text()) for name in ("v0.0.40-slurm-24.11", "v0.0.45-slurm-26.05")
}
JOB_ID = 7

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
}


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
