"""From records to JSON, in the form of each API version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simulator.slurm.records import SimJob, SimNode, SimPartition
from simulator.slurm.slurmctld import Slurmctld
from slurmclient.hostlist import compress

Json = dict[str, Any]

SHARED = frozenset({"shard", "mps"})
"""Of these slurmctld shows no numbers, but how many parts of each GPU."""


def number(value: float | None) -> Json:
    """Return an optional number; `None` is unset."""
    return {"set": value is not None, "infinite": False, "number": 0 if value is None else int(value)}


def limit(value: float | None) -> Json:
    """Return a number whose absence means "no limit"."""
    return {"set": value is not None, "infinite": value is None, "number": 0 if value is None else int(value)}


def show_job(job: SimJob, controller: Slurmctld, version: int) -> Json:
    """Return a job as `GET /job/{id}` shows it."""
    held = bool(job.nodes) and not job.pending
    # While an external job is CANCELLED and COMPLETING slurmctld shows no nodes.
    nodes = () if job.external and "COMPLETING" in job.flags else job.nodes
    cpus = job.cpus
    tres = f"cpu={cpus},mem={job.memory_mb or 0}M,node={job.node_count},billing={cpus}"
    shown: Json = {
        "account": job.account,
        "admin_comment": job.admin_comment,
        "array_job_id": number(0),
        "array_task_id": number(None),
        "batch_flag": job.script is not None,
        "batch_host": nodes[0] if nodes and job.script is not None else "",
        "cluster": "sim",
        "comment": job.comment,
        "cpus": number(cpus),
        "cpus_per_task": number(job.cpus_per_node if job.packed else None),
        "current_working_directory": job.directory,
        "deadline": number(job.deadline),
        "dependency": job.dependency,
        "derived_exit_code": _exit_code(0),
        "end_time": number(job.end_time),
        "excluded_nodes": compress(job.excluded),
        "exit_code": _exit_code(job.exit_code),
        "extra": job.extra,
        "features": job.features,
        "flags": ["EXTERNAL_JOB"] if job.external and version >= 43 else [],
        "gres_detail": [_gres_detail(job, controller.nodes[name]) for name in nodes]
        if job.gres and job.running
        else [],
        "group_id": job.group_id,
        "hold": job.priority == 0,
        "job_id": job.job_id,
        "job_resources": _resources(job, controller, version) if held and job.running else _nothing(controller),
        "job_state": job.words,
        "licenses": job.licenses,
        "mcs_label": job.mcs_label,
        "memory_per_cpu": number((job.memory_mb or 0) // job.cpus_per_node if job.packed else None),
        "memory_per_node": number(None if job.packed else job.memory_mb),
        "name": job.name,
        "nice": job.nice,
        "node_count": number(job.node_count),
        "nodes": compress(nodes),
        "partition": job.partition,
        "preempt_time": number(job.preempt_time),
        "prefer": job.prefer,
        "priority": number(job.priority),
        "qos": job.qos,
        "required_nodes": compress(job.required),
        "requeue": job.requeue,
        "restart_cnt": job.restart_count,
        "resv_name": job.reservation,
        "scheduled_nodes": "",
        "shared": [] if version >= 45 else list(job.shared),
        "standard_error": job.stderr,
        "standard_input": job.stdin,
        "standard_output": job.stdout,
        "start_time": number(job.start_time),
        "state_description": "",
        "state_reason": job.reason,
        "submit_time": number(job.submit_time),
        "tasks": number(job.tasks),
        "time_limit": limit(None if job.time_limit_s is None else job.time_limit_s / 60),
        "tres_alloc_str": tres if held else "",
        "tres_per_node": job.tres_per_node,
        "tres_per_task": ",".join(f"gres/{name}:{count}" for name, count in job.gres.items()) if job.packed else "",
        "tres_req_str": tres,
        "user_id": job.user_id,
        "user_name": job.user_name,
        "wckey": job.wckey,
    }
    if version == 40:
        shown["exclusive"], shown["oversubscribe"] = list(job.shared), False
    return shown


def show_node(node: SimNode, controller: Slurmctld, version: int) -> Json:
    """Return a node as `GET /nodes` shows it."""
    holders = controller.cluster.holders(node.name)
    cpus = sum(job.cpus_per_node * job.times(node.name) for job in holders)
    topology = {"topology": node.topology} if version >= 43 else {}
    return topology | {
        "name": node.name,
        "hostname": "localhost" if not node.external else node.name,
        "address": node.address,
        "state": node_words(node, controller, version),
        "reason": node.reason,
        "reason_set_by_user": "root" if node.reason else "",
        "cpus": node.cpus,
        "effective_cpus": node.cpus,
        "real_memory": node.memory_mb,
        "alloc_cpus": cpus,
        "alloc_memory": sum(job.memory_mb or node.memory_mb for job in holders),
        "free_mem": number(node.memory_mb),
        "gres": ",".join(f"{name}:{count}" for name, count in node.gres.items()),
        "gres_used": ",".join(f"{name}:{count}" for name, count in _held(node, holders).items()),
        "features": list(node.features),
        "active_features": list(node.features),
        "partitions": [one.name for one in controller.partitions.values() if _contains(one, node, controller)],
        "weight": 1,
        "comment": node.comment,
        "extra": node.extra,
        "version": "" if node.external else controller.release.text,
    }


def node_words(node: SimNode, controller: Slurmctld, version: int) -> list[str]:
    """Return state words of a node. EXTERNAL is shown from v0.0.44 on."""
    holders = controller.cluster.holders(node.name)
    used = sum(job.cpus_per_node * job.times(node.name) for job in holders)
    base = "DOWN" if node.down else "IDLE" if not used else "ALLOCATED" if used >= node.cpus else "MIXED"
    words = [base]
    if node.drained:
        words.append("DRAIN")
    if node.failing:
        words.append("FAIL")
    if node.maintenance:
        words.append("MAINTENANCE")
    if any(node.name in job.completing_on for job in holders):
        words.append("COMPLETING")
    if node.down or node.silent:
        words.append("NOT_RESPONDING")
    if node.external and version >= 44:
        words.append("EXTERNAL")
    return words


def show_partition(partition: SimPartition, controller: Slurmctld, version: int) -> Json:
    """Return a partition as `GET /partitions` shows it. Before v0.0.45 it does not show which one is the default."""
    nodes = [node.name for node in controller.cluster.nodes_of(partition)]
    shown: Json = {
        "name": partition.name,
        "nodes": {"allowed_allocation": "", "configured": compress(nodes), "total": len(nodes)},
        "node_sets": "",
        "accounts": {"allowed": "", "deny": ""},
        "groups": {"allowed": ""},
        "qos": {"allowed": "", "deny": "", "assigned": ""},
        "alternate": "",
        "cluster": "",
        "cpus": {"total": sum(controller.nodes[name].cpus for name in nodes)},
        "defaults": {"time": number(None), "partition_memory_per_node": number(0)},
        "maximums": {"time": limit(partition.max_time_minutes), "nodes": limit(None)},
        "minimums": {"nodes": 0},
        "grace_time": partition.grace_time_s,
        "priority": {"job_factor": 1, "tier": partition.priority_tier},
        "partition": {"state": ["UP" if partition.up else "DOWN"]},
    }
    if version >= 45:
        shown["flags"] = ["DEFAULT"] if partition.default else []
        shown["preempt_mode"] = [partition.preempt_mode or "OFF"]
    return shown


def _contains(partition: SimPartition, node: SimNode, controller: Slurmctld) -> bool:
    return node in controller.cluster.nodes_of(partition)


def _held(node: SimNode, holders: Iterable[SimJob]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for job in holders:
        for name, count in job.gres.items():
            counts[name] = counts.get(name, 0) + count * job.times(node.name)
    return counts


def _gres_detail(job: SimJob, node: SimNode) -> str:
    parts = []
    for name, count in job.gres.items():
        # slurmctld names the type of an untyped request's devices, where the node has one type alone.
        types = [full for full in node.gres if full.partition(":")[0] == name.partition(":")[0]]
        shown = types[0] if ":" not in name and len(types) == 1 else name
        numbers = job.devices.get(node.name, {}).get(name, ())
        index = _shares(node, shown, numbers) if shown.partition(":")[0] in SHARED else f"IDX:{_ranges(numbers)}"
        parts.append(f"{shown}:{count * job.times(node.name)}({index})")
    return ",".join(parts)


def _shares(node: SimNode, name: str, numbers: tuple[int, ...]) -> str:
    """Return the parts of each GPU that are held, and how many each has."""
    gpus = sum(there for full, there in node.gres.items() if full.partition(":")[0] == "gpu") or 1
    each = max(1, node.gres.get(name, 0) // gpus)
    return ",".join(f"{sum(number // each == gpu for number in numbers)}/{each}" for gpu in range(gpus))


def _ranges(numbers: tuple[int, ...]) -> str:
    """Write numbers as `bit_fmt` does: `0-2,5`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _resources(job: SimJob, controller: Slurmctld, version: int) -> Json:
    if version == 40:
        return {
            "nodes": compress(job.nodes),
            "allocated_cpus": job.cpus,
            "allocated_nodes": [
                {
                    "nodename": name,
                    "cpus_used": 0,
                    "memory_used": 0,
                    "memory_allocated": (job.memory_mb or 0) * job.times(name),
                    "sockets": {"0": {"cores": _allocated_cores(job, controller.nodes[name])}},
                }
                for name in job.nodes
            ],
        }
    allocation = [
        {
            "index": index,
            "name": name,
            "cpus": {"count": _whole_cores(job, controller.nodes[name]), "used": 0},
            "memory": {"used": 0, "allocated": (job.memory_mb or 0) * job.times(name)},
            "sockets": _sockets(job, controller.nodes[name]),
        }
        for index, name in enumerate(job.nodes)
    ]
    nodes = {"count": len(job.nodes), "list": compress(job.nodes), "whole": job.exclusive, "allocation": allocation}
    return {"nodes": nodes, "cpus": job.cpus}


def _allocated_cores(job: SimJob, node: SimNode) -> Json:
    """Return the cores of a job on a node as v0.0.40 shows them, with one thread each where the node shows none."""
    given = job.cores.get(node.name) or range(job.cpus_per_node * job.times(node.name))
    return {str(core): "allocated" for core in given}


def _whole_cores(job: SimJob, node: SimNode) -> int:
    return len(job.cores.get(node.name, ())) * node.threads_per_core or job.cpus_per_node * job.times(node.name)


def _sockets(job: SimJob, node: SimNode) -> list[Json]:
    """Return every core of the node; none where the node does not show them, which is faster."""
    if not node.threads_per_core:
        return []
    given = job.cores.get(node.name, ())
    cores = [
        {"index": core, "status": ["ALLOCATED" if core in given else "UNALLOCATED"]}
        for core in range(node.cpus // node.threads_per_core)
    ]
    return [{"index": 0, "cores": cores}]


def _nothing(controller: Slurmctld) -> Json | None:
    """Return an empty object: `{}` before 24.11, `null` since."""
    return None if controller.release.number >= (24, 11) else {}


def _exit_code(code: int) -> Json:
    return {
        "status": ["ERROR" if code else "SUCCESS"],
        "return_code": number(code),
        "signal": {"id": number(None), "name": ""},
    }
