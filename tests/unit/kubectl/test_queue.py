"""`kubectl slurm queue`, `shares`, `cancel`, `-w`, and `why` of all that wait."""

from __future__ import annotations

import json

import pytest

from kubectl_slurm import watching
from tests.builders.kubectl_program import a_pod, run_plugin
from tests.builders.plain_api import PlainApi

LEASE = {"spec": {"holderIdentity": "slurm-extender-abc_00ff"}}
BATCH = {
    "name": "batch",
    "known": True,
    "default": True,
    "nodes": 4,
    "nodesInService": 3,
    "cpus": 256,
    "cpusUsed": 200,
    "gpus": 8,
    "gpusUsed": 6,
    "waiting": 3,
    "placed": 9,
    "gpusWanted": 4,
    "reasons": {"Resources": 2, "Priority": 1},
}


def test_queue_shows_partitions_with_gpus_and_waiting_pods_by_reason(api: PlainApi) -> None:
    api.lease, api.debug = LEASE, {"queue": {"partitions": [BATCH]}}
    said = run_plugin("queue")
    assert said.exit_code == 0
    head, row = said.stdout.splitlines()
    assert head.split() == ["PARTITION", "NODES", "CPUS", "GPUS", "PLACED", "WAITING", "GPUS-WANTED", "REASONS"]
    assert row.split(maxsplit=7) == ["batch", "3/4", "200/256", "6/8", "9", "3", "4", "2 Resources, 1 Priority"]
    assert json.loads(run_plugin("queue", "-o", "json").stdout) == [
        {key: BATCH[key] for key in BATCH if key != "known"}
    ]


def test_pods_without_a_partition_of_slurm_have_a_line_without_nodes(api: PlainApi) -> None:
    line = {**BATCH, "name": "", "known": False, "nodes": 0, "reasons": {"InvalidSlurmSettings": 1}}
    api.lease, api.debug = LEASE, {"queue": {"partitions": [line]}}
    assert run_plugin("queue", "--no-headers").stdout.split()[:3] == ["(none)", "<none>", "<none>"]


def test_queue_counts_the_pods_where_the_extender_is_not_reached(api: PlainApi) -> None:
    partition = {"slurm-extender.io/partition": "gpu"}
    api.pods = [
        a_pod("a", why="x", annotations=partition),
        a_pod("b", why="x", annotations=partition),
        a_pod("c", node="n1", annotations=partition),
        a_pod("d"),
        a_pod("far", namespace="there"),
    ]
    said = run_plugin("queue", "--no-headers")
    assert said.exit_code == 0
    first, second = (line.split(maxsplit=7) for line in said.stdout.splitlines())
    assert (first[0], first[4], first[5], first[7]) == ("(default)", "0", "1", "1 no reason yet")
    assert (second[0], second[4], second[5], second[7]) == ("gpu", "1", "2", "2 SlurmJobQueued")
    assert "the Pods of namespace default are counted, without nodes and GPUs" in said.stderr


def test_shares_show_fair_shares_and_limits(api: PlainApi) -> None:
    line = {"account": "physics", "user": "ada", "shares": 3.0, "usage": 0.25, "factor": 0.5, "max_jobs": 10}
    api.lease, api.debug = LEASE, {"shares?account=physics": {"shares": [line], "leftOut": 2, "limitsUnknown": ""}}
    said = run_plugin("shares", "physics")
    assert said.stdout.splitlines()[1].split() == ["physics", "ada", "3", "0.2500", "0.5000", "10", "<none>"]
    assert said.stderr == "2 more lines are left out; name accounts\n"
    assert any("shares?account=physics" in one for one in api.requests)


def test_shares_that_cannot_be_read_are_an_error_with_the_reason(api: PlainApi) -> None:
    said = run_plugin("shares")
    assert said.exit_code == 1
    assert "fair shares are read by the extender, and" in said.stderr


def test_why_without_names_explains_all_that_wait_here(api: PlainApi) -> None:
    api.pods = [a_pod("a", why="First."), a_pod("b", why="Second."), a_pod("c", node="n1"), a_pod("x", namespace="far")]
    assert run_plugin("why").stdout == "default/a: First.\ndefault/b: Second.\n"
    api.pods = []
    none = run_plugin("why")
    assert (none.exit_code, none.stderr) == (0, "no Pod of the scheduler slurm waits in namespace default\n")


def test_cancel_deletes_a_waiting_pod_and_evicts_a_placed_one(api: PlainApi) -> None:
    owned = a_pod("placed", node="n1")
    owned["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": "web", "controller": True}]
    api.pods = [a_pod("waiting", why="Slurm job 7 waits: (Priority)."), owned]
    said = run_plugin("cancel", "waiting", "placed")
    assert said.exit_code == 0
    assert said.stdout == (
        "pod/waiting deleted: Slurm job 7 ends with it\n"
        "pod/placed evicted: no Slurm job of it is known; StatefulSet web may create another Pod\n"
    )
    (first, second) = api.changes
    assert first[:2] == ("DELETE", "/api/v1/namespaces/default/pods/waiting")
    assert first[2]["preconditions"] == {"uid": "uid-waiting"}
    assert second[:2] == ("POST", "/api/v1/namespaces/default/pods/placed/eviction")
    assert second[2]["deleteOptions"] == {"preconditions": {"uid": "uid-placed"}}


def test_cancel_changes_nothing_in_a_dry_run(api: PlainApi) -> None:
    api.pods = [a_pod("w")]
    assert run_plugin("cancel", "w", "--dry-run").stdout.startswith("pod/w deleted (dry run)")
    assert api.changes == []
    run_plugin("cancel", "w", "--dry-run=server")
    assert api.changes[0][2]["dryRun"] == ["All"]


def test_an_eviction_that_a_budget_refuses_fails_and_the_others_go_on(api: PlainApi) -> None:
    api.pods = [a_pod("a", node="n1"), a_pod("b")]
    api.refused = ("/api/v1/namespaces/default/pods/a/eviction",)
    said = run_plugin("cancel", "a", "b")
    assert said.exit_code == 1
    assert "disruption budget" in said.stderr
    assert "pod/b deleted" in said.stdout


@pytest.mark.parametrize("words", [(), ("a", "-l", "app=web")])
def test_cancel_takes_names_or_labels(api: PlainApi, words: tuple[str, ...]) -> None:
    assert run_plugin("cancel", *words).exit_code == 2
    assert api.changes == []


def test_watching_prints_what_changed_until_it_is_interrupted(api: PlainApi, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter(["", "Slurm job 8 waits: (Priority).", None])

    def pause(_seconds: float) -> None:
        change = next(turns)
        if change is None:
            raise KeyboardInterrupt
        if change:
            api.pods = [a_pod("web", why=change)]

    monkeypatch.setattr(watching, "pause", pause)
    api.pods = [a_pod("web", why="Slurm job 7 waits: (Resources).")]
    said = run_plugin("why", "-w")
    assert said.exit_code == 130
    assert said.stdout == (
        "default/web: Slurm job 7 waits: (Resources).\ndefault/web: Slurm job 8 waits: (Priority).\n"
    )
