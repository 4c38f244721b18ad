"""From a request's JSON to a job, as forgiving and as treacherous as slurmrestd reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.slurm.errors import DEFAULT_SOURCE, SlurmRefusal
from simulator.slurm.records import SimJob, SimNode, SimPartition
from simulator.slurm.release import SimRelease
from slurmclient.hostlist import HostlistError, expand

LONGEST_TEXT = 1024
_GRES = re.compile(r"gres[/:]([A-Za-z0-9_.-]+(?::(?=[A-Za-z0-9_.-]*[A-Za-z])[A-Za-z0-9_.-]+)?)(?:[:=](\d+))?$")


def parse_number(value: object) -> int | None:
    """Return an optional number. One whose `set` is missing is unset, without any error."""
    if isinstance(value, dict):
        if not value.get("set") or value.get("infinite"):
            return None
        value = value.get("number")
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    return int(value) if isinstance(value, int | float) else None


def parse_time(value: object, now: float) -> float:
    """Parse a time: a number, `uts<epoch>`, `now+<n>`; 0.0 for anything else."""
    if isinstance(value, str):
        if value.startswith("uts"):
            return float(value[3:] or 0)
        if found := re.fullmatch(r"now\+(\d+)(second|minute|hour|day)?s?", value):
            return now + int(found[1]) * {"minute": 60, "hour": 3600, "day": 86400}.get(found[2] or "", 1)
    return float(parse_number(value) or 0)


def gres_counts(text: str, nodes: Mapping[str, SimNode]) -> dict[str, int]:
    """Parse text such as `gres/gpu:h100:2`. Raises `SlurmRefusal`: 2115 for `gpu:2`, 2072 for an unknown GRES."""
    known = {name.partition(":")[0] for node in nodes.values() for name in node.gres}
    counts: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        found = _GRES.match(part)
        if found is None:
            raise SlurmRefusal(2115)
        if found[1].partition(":")[0] not in known:
            raise SlurmRefusal(2072)
        counts[found[1]] = counts.get(found[1], 0) + int(found[2] or 1)
    return counts


def node_names(value: object, nodes: Mapping[str, SimNode]) -> tuple[str, ...]:
    """Return names from a hostlist or an array of them. Raises `SlurmRefusal` (2018) for a node that does not exist."""
    parts = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    try:
        names = tuple(name for part in parts if part for name in expand(str(part)))
    except HostlistError as error:
        raise SlurmRefusal(2018) from error
    if any(name not in nodes for name in names):
        raise SlurmRefusal(2018)
    return names


@dataclass(frozen=True, slots=True)
class SubmitContext:
    """Everything besides the JSON that decides how slurmctld reads a job; `caller` is (name, uid, gid)."""

    release: SimRelease
    version: int
    now: float
    caller: tuple[str, int, int]
    allocation: bool
    nodes: Mapping[str, SimNode]
    partitions: Mapping[str, SimPartition]


def parse_job(raw: Mapping[str, Any], context: SubmitContext) -> SimJob:
    """Return the job that a request describes. Raises `SlurmRefusal`."""
    # Where the flag is unknown, the job is made without it; the caller says so beside the job's id.
    external = "EXTERNAL_JOB" in (raw.get("flags") or []) and context.version >= 43
    _check_texts(raw)
    _check_script(raw, context, external=external)
    name, uid, gid = _owner(raw, context)
    partition = _partition(raw, context.partitions)
    _check_features(raw.get("constraints") or "", context.nodes)
    node_count = parse_number(raw.get("minimum_nodes")) or int(str(raw.get("nodes") or 1).partition("-")[0])
    texts: dict[str, Any] = {_FIELDS.get(key, key): raw.get(key) or "" for key in _TEXTS}
    return SimJob(
        job_id=0,
        user_id=uid,
        group_id=gid,
        user_name=name,
        partition=partition,
        submit_time=context.now,
        node_count=node_count,
        gres=gres_counts(raw.get("tres_per_node") or raw.get("tres_per_task") or "", context.nodes),
        shared=tuple(raw.get("shared") or ()),
        required=node_names(raw.get("required_nodes"), context.nodes),
        excluded=node_names(raw.get("excluded_nodes"), context.nodes),
        requeue=raw.get("requeue", True) is not False,
        external=external,
        outlives_nodes=raw.get("kill_on_node_fail") is False,
        script=raw.get("script"),
        environment=dict(entry.split("=", 1) for entry in raw.get("environment") or []),
        warns_script="BATCH_JOB" in (raw.get("kill_warning_flags") or ()),
        **texts,
        **_numbers(raw, node_count, context.now),
    )


def _check_script(raw: Mapping[str, Any], context: SubmitContext, *, external: bool) -> None:
    """Check that the job has the script, environment and directory that its kind needs. Raises `SlurmRefusal`."""
    if external and raw.get("script"):
        raise SlurmRefusal(2189)
    if not context.allocation and not external:
        if not raw.get("script"):
            raise SlurmRefusal(9000, text='Populated "script" field is required for job submission', status=422)
        if not raw.get("environment"):
            raise SlurmRefusal(context.release.no_environment)
    needs_directory = not external or context.release.external_needs_directory
    if needs_directory and not raw.get("current_working_directory"):
        raise SlurmRefusal(2063)


def _owner(raw: Mapping[str, Any], context: SubmitContext) -> tuple[str, int, int]:
    """Return name, uid and gid of the job's user; root alone may submit for others. Raises `SlurmRefusal`."""
    name, uid, gid = context.caller
    if context.allocation or raw.get("user_id") is None:
        if uid != 0 and raw.get("admin_comment"):
            raise SlurmRefusal(2002)
        return name, uid, gid
    requested_uid, requested_gid = int(raw["user_id"]), int(raw.get("group_id", gid))
    if uid != 0 and (requested_uid, requested_gid) != (uid, gid):
        raise SlurmRefusal(2010)
    return name if requested_uid == uid else f"user{requested_uid}", requested_uid, requested_gid


def _partition(raw: Mapping[str, Any], partitions: Mapping[str, SimPartition]) -> str:
    partition = raw.get("partition") or next((one.name for one in partitions.values() if one.default), "")
    if not partition or any(one not in partitions for one in partition.split(",")):
        raise SlurmRefusal(2000)
    return str(partition)


def _numbers(raw: Mapping[str, Any], node_count: int, now: float) -> dict[str, Any]:
    """Return the fields of a job that are numbers or times, and the hold that follows from the priority."""
    tasks = parse_number(raw.get("tasks")) or node_count
    cpus = max(parse_number(raw.get("minimum_cpus")) or 1, tasks * (parse_number(raw.get("cpus_per_task")) or 1))
    each, memory = parse_number(raw.get("cpus_per_task")) or 1, parse_number(raw.get("memory_per_node"))
    by_cpu = None if memory is not None else parse_number(raw.get("memory_per_cpu"))
    packed = by_cpu is not None and tasks > 1
    priority, limit = parse_number(raw.get("priority")), parse_number(raw.get("time_limit"))
    held = "JobHeldUser" if raw.get("hold") or priority == 0 else ""
    return {
        "cpus_per_node": each if packed else -(-cpus // node_count),
        "memory_mb": memory if by_cpu is None else by_cpu * each,
        "packed": packed,
        "tasks": tasks,
        "begin_time": parse_time(raw.get("begin_time"), now),
        "deadline": parse_time(raw.get("deadline"), now),
        "time_limit_s": None if limit is None else limit * 60.0,
        "priority": 0 if held else 1000 if priority is None else priority,
        "nice": parse_number(raw.get("nice")) or 0,
        "held_by": held,
        "reason": held or "None",
    }


def update_job(
    job: SimJob, raw: Mapping[str, Any], nodes: Mapping[str, SimNode], partitions: Mapping[str, SimPartition]
) -> None:
    """Apply an update to a job, all of it or nothing. Raises `SlurmRefusal`."""
    source = "slurm_update_job2()"
    _check_texts(raw)
    if job.ended:
        raise SlurmRefusal(2084, source)
    changes = {key: raw[key] or "" for key in _WHILE_PENDING if key in raw}
    _check_changes(job, changes, nodes, partitions, source)
    _resize(job, raw, source)
    for key, value in changes.items():
        setattr(job, _FIELDS.get(key, key), value)
    for key in ("name", "comment", "admin_comment", "extra"):
        if key in raw:
            setattr(job, key, raw[key] or "")
    job.nice = int(raw.get("nice", job.nice))
    # An empty array is taken for "not said"; an empty text, or an array of one, empties the list.
    if raw.get("excluded_nodes") not in (None, []):
        if not job.pending:
            raise SlurmRefusal(2073, "slurm_update_job2()")
        job.excluded = node_names(raw["excluded_nodes"], nodes)
    if (limit := parse_number(raw.get("time_limit"))) is not None:
        job.time_limit_s = limit * 60.0
        if job.running:
            job.end_time = job.start_time + job.time_limit_s
    if raw.get("hold") is not None:
        job.held_by = job.reason = "JobHeldUser" if raw["hold"] else ""
        job.priority = 0 if raw["hold"] else 1000
    if "requeue" in raw:
        job.requeue = bool(raw["requeue"])


def _resize(job: SimJob, raw: Mapping[str, Any], source: str) -> None:
    """Give a pending job another number of tasks and nodes; the CPUs and memory of each stay. Raises `SlurmRefusal`."""
    count, tasks = parse_number(raw.get("minimum_nodes")), parse_number(raw.get("tasks"))
    if count is None and tasks is None:
        return
    if not job.pending:
        raise SlurmRefusal(2073, source)
    job.node_count = count or job.node_count
    job.tasks = tasks or job.tasks


def _check_changes(
    job: SimJob,
    changes: Mapping[str, str],
    nodes: Mapping[str, SimNode],
    partitions: Mapping[str, SimPartition],
    source: str,
) -> None:
    if not job.pending and any(getattr(job, _FIELDS.get(key, key)) != value for key, value in changes.items()):
        raise SlurmRefusal(2073, source)
    if any(name not in partitions for name in changes.get("partition", "").split(",") if name):
        raise SlurmRefusal(2000, source)
    _check_features(changes.get("constraints", ""), nodes, source)


def _check_features(expression: str, nodes: Mapping[str, SimNode], source: str = DEFAULT_SOURCE) -> None:
    """Check that each feature of an expression is one of some node. Raises `SlurmRefusal`."""
    known = {feature for node in nodes.values() for feature in node.features}
    if any(word and word not in known for word in re.split(r"[&|,]", expression)):
        raise SlurmRefusal(2029, source)


_WHILE_PENDING = ("partition", "account", "qos", "wckey", "constraints", "prefer", "licenses", "dependency")
_FIELDS = {
    "constraints": "features",
    "current_working_directory": "directory",
    "standard_input": "stdin",
    "standard_output": "stdout",
    "standard_error": "stderr",
}
"""Field of a request -> field of `SimJob`, where they differ."""

_TEXTS = (
    "account", "qos", "reservation", "wckey", "comment", "admin_comment", "extra", "mcs_label", "prefer", "licenses",
    "dependency", "name", "tres_per_node", "constraints", "current_working_directory", "standard_input",
    "standard_output", "standard_error",
)  # fmt: skip


def _check_texts(raw: Mapping[str, Any]) -> None:
    for key in ("name", "comment", "admin_comment", "extra"):
        if len(str(raw.get(key) or "").encode()) > LONGEST_TEXT:
            raise SlurmRefusal(2012)
