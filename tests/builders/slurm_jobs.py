"""A job record as slurmrestd sends it, from v0.0.41 on."""

from __future__ import annotations


def a_job_record(**fields: object) -> dict[str, object]:
    """Return a running job of one CPU on one node; `fields` over that."""

    def number(value: int) -> dict[str, object]:
        return {"set": True, "infinite": False, "number": value}

    record: dict[str, object] = {
        "job_id": 7,
        "name": "team/pod-abc",
        "job_state": ["RUNNING"],
        "state_reason": "None",
        "nodes": "node-1",
        "cpus": number(1),
        "node_count": number(1),
        "memory_per_node": number(100),
        "partition": "batch",
        "user_id": 0,
        "group_id": 0,
        "start_time": number(1_800_000_000),
        "end_time": number(1_800_003_600),
        "time_limit": number(60),
        "preempt_time": number(0),
        "restart_cnt": 0,
        "gres_detail": [],
        "tres_alloc_str": "cpu=1,mem=100M,node=1",
    }
    return {**record, **fields}
