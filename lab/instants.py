"""When things happened, finer than a second: from the API server's audit log and from slurmctld's.

Both are of one machine and one clock, in UTC.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.apiserver import audited
from lab.credentials import KWOK

_STAMP = re.compile(r"^\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})\] (.*)$")
_STARTED = re.compile(r"(?:Allocate|_slurm_rpc_allocate_resources|Started) JobId=(\d+)\b.* (?:on |NodeList=)\S")
_ENDED = re.compile(
    r"(?:REQUEST_KILL_JOB JobId=(\d+)|job_signal: 9 of running JobId=(\d+)|"
    r"Time limit exhausted for JobId=(\d+)|preempted JobId=(\d+)|"
    r"Killing JobId=(\d+) on failed node|(?:Requeuing|Killing) JobId=(\d+) due to)"
)
_CHANGED = re.compile(r"\[JobId=(\d+)\] change state: (\S+) -> (\S+)")
_CONFIGURED = re.compile(r"Configuration for JobId=(\d+) is complete")
_DRAINED = re.compile(r"update_node: node (\S+) reason set to: slurm-extender:")
_WARNED = re.compile(r"setting \d+ sec preemption grace time for JobId=(\d+) to reclaim resources for JobId=(\d+)")
_EPILOG_ERROR = re.compile(r"Epilog error|Prolog/Epilog failure")


@dataclass(frozen=True, slots=True)
class KubeInstants:
    """By ``namespace/name`` of a Pod, seconds since the epoch."""

    gone: dict[str, float] = field(default_factory=dict)
    """When the request of the Pod's kubelet came in that said that none of its containers runs (its phase is Failed or
    Succeeded), or, where there was none, the one that removed it: it is not gone before."""

    bound: dict[str, float] = field(default_factory=dict)
    """When its Binding was asked for."""


@dataclass(frozen=True, slots=True)
class SlurmInstants:
    """Hold instants from slurmctld's log, in seconds since the epoch."""

    given: dict[int, float] = field(default_factory=dict)
    """When slurmctld gave the job its nodes."""

    configured: dict[int, float] = field(default_factory=dict)
    """When PrologSlurmctld of the job was over: it is CONFIGURING before."""

    ended: dict[int, float] = field(default_factory=dict)
    """When slurmctld began to end the job; the first line counts."""

    warned: dict[int, tuple[float, int]] = field(default_factory=dict)
    """By the job that preempts: when slurmctld first gave a job its GraceTime for it, and which job that is
    (`slurmctld/preempt.c`, at debug)."""

    drained: list[tuple[float, str]] = field(default_factory=list)
    """Each drain by the extender, and its node."""

    epilog_errors: list[str] = field(default_factory=list)


def kube_instants(home: Path) -> KubeInstants:
    """Read the audit log of an API server that runs in ``home``."""
    found = KubeInstants()
    for event in _about_pods(audited(home)):
        target, at = event["objectRef"], _utc(event["requestReceivedTimestamp"].rstrip("Z"))
        pod = f"{target.get('namespace')}/{target.get('name')}"
        code = event.get("responseStatus", {}).get("code")
        if target.get("subresource") == "binding" and code == 201:
            found.bound.setdefault(pod, at)
        elif event["user"]["username"] == KWOK and code == 200 and (event["verb"] == "delete" or _is_finished(event)):
            found.gone.setdefault(pod, at)
    return found


def slurm_instants(log: Path) -> SlurmInstants:
    """Read slurmctld's log, whose stamps are ``iso8601_ms``; DebugFlags has TraceJobs (`slurmctld/job_state.c`)."""
    found = SlurmInstants()
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            stamped = _STAMP.match(line)
            if stamped is None:
                continue
            at, text = _utc(stamped[1]), stamped[2]
            if started := _STARTED.search(text):
                found.given.setdefault(int(started[1]), at)
            if ended := _ENDED.search(text):
                found.ended.setdefault(int(next(filter(None, ended.groups()))), at)
            if changed := _CHANGED.search(text):
                job, old, new = int(changed[1]), changed[2].split(","), changed[3].split(",")
                if "PENDING" in old and "RUNNING" in new:
                    found.given.setdefault(job, at)
                elif "RUNNING" in old and "RUNNING" not in new:
                    found.ended.setdefault(job, at)
            if configured := _CONFIGURED.search(text):
                found.configured[int(configured[1])] = at
            if warned := _WARNED.search(text):
                found.warned.setdefault(int(warned[2]), (at, int(warned[1])))
            if drained := _DRAINED.search(text):
                found.drained.append((at, drained[1]))
            if _EPILOG_ERROR.search(text):
                found.epilog_errors.append(text)
    return found


def _about_pods(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        # Most of a log is about leases and lists: only what is needed is decoded.
        if '"pods"' in line and ('"verb":"delete"' in line or '"binding"' in line or '"requestObject"' in line):
            yield json.loads(line)


def _is_finished(event: Any) -> bool:
    """Return whether this audit event reports that the containers of a Pod have ended."""
    status = (event.get("requestObject") or {}).get("status") or {}
    return event["verb"] == "patch" and status.get("phase") in {"Failed", "Succeeded"}


def _utc(stamp: str) -> float:
    return datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()
