"""`kubectl slurm gangs`: the gangs that the extender knows, and the members of one."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.builders.kubectl_program import a_pod, run_plugin
from tests.builders.plain_api import PlainApi

Json = dict[str, Any]

LEASE = {"spec": {"holderIdentity": "slurm-extender-abc_00ff"}}
SHORT: Json = {
    "key": "gang-1",
    "namespace": "default",
    "name": "Job train",
    "source": "job",
    "state": "granted",
    "jobId": 7,
    "size": 2,
    "pods": 2,
    "bound": 0,
    "missing": "kube-scheduler has not accepted default/train-1 on a node; none is bound before all are.",
}


def member(rank: int | None, name: str, state: str) -> Json:
    return {
        "rank": rank,
        "pod": f"default/{name}",
        "uid": f"uid-{name}",
        "state": state,
        "phase": "Pending",
        "slurmNode": f"n{rank}",
        "node": f"k{rank}",
    }


WHOLE: Json = {
    **SHORT,
    "why": "Slurm allocated n0, n1 to job 7.",
    "emptySlots": [],
    "members": [member(0, "train-0", "voted"), member(1, "train-1", "waiting")],
    "membersLeftOut": 0,
}


def bound_member(name: str, rank: str, job: str = "7") -> Json:
    said = {
        "status.slurm-extender.io/job-id": job,
        "status.slurm-extender.io/gang-rank": rank,
        "status.slurm-extender.io/gang-members": "2",
    }
    return a_pod(name, node=f"k{rank}", annotations=said)


def test_gangs_are_a_table_with_what_each_lacks(api: PlainApi) -> None:
    api.lease = LEASE
    other = {**SHORT, "namespace": "there", "name": "gang ring", "state": "bound", "missing": ""}
    api.debug = {"gangs?namespace=default": [SHORT], "gangs": [other, SHORT], "gangs?namespace=empty": []}
    lines = run_plugin("gangs").stdout.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "JOB", "SIZE", "PODS", "BOUND", "MISSING"]
    assert lines[1].startswith("Job train   granted   7     2      2      0")
    assert lines[1].endswith(SHORT["missing"])
    assert [line.split()[0] for line in run_plugin("gangs", "-A").stdout.splitlines()] == [
        "NAMESPACE",
        "default",
        "there",
    ]
    assert run_plugin("gangs", "-n", "empty").stderr == "no gang in namespace empty\n"
    assert [one["job"] for one in json.loads(run_plugin("gangs", "-o", "json").stdout)] == [7]


def test_members_of_the_gang_of_a_pod_are_shown_by_rank_with_what_is_missing(api: PlainApi) -> None:
    api.lease, api.pods = LEASE, [a_pod("train-0")]
    api.debug = {"gangs/uid-train-0": WHOLE}
    assert run_plugin("gangs", "train-0").stdout.splitlines() == [
        "default/Job train: granted, Slurm job 7, 0 of 2 members bound",
        SHORT["missing"],
        WHOLE["why"],
        "RANK   POD               STATE     PHASE     SLURM-NODE   NODE",
        "0      default/train-0   voted     Pending   n0           k0",
        "1      default/train-1   waiting   Pending   n1           k1",
    ]
    shown = json.loads(run_plugin("gangs", "train-0", "-o", "json").stdout)
    assert (shown["job"], shown["why"], shown["members"][1]["state"]) == (7, WHOLE["why"], "waiting")
    assert yaml.safe_load(run_plugin("gangs", "train-0", "-o", "yaml").stdout) == shown
    assert run_plugin("gangs", "train-0", "-o", "name").stdout == "pod/train-0\npod/train-1\n"


def test_members_that_are_left_out_are_counted(api: PlainApi) -> None:
    api.lease, api.pods = LEASE, [a_pod("train-0")]
    api.debug = {"gangs/uid-train-0": {**WHOLE, "membersLeftOut": 12}}
    assert run_plugin("gangs", "train-0").stderr == "and 12 more\n"


def test_a_pod_of_no_gang_is_said_to_be_none(api: PlainApi) -> None:
    api.lease, api.pods, api.debug = LEASE, [a_pod("web")], {}
    said = run_plugin("gangs", "web")
    assert said.exit_code == 1
    assert "Pod default/web is a member of no gang" in said.stderr


def test_without_the_extender_the_bound_members_are_read_from_their_pods(api: PlainApi) -> None:
    api.pods = [bound_member("train-1", "1"), bound_member("train-0", "0"), bound_member("alone", "0", job="8")]
    said = run_plugin("gangs", "train-1")
    assert said.exit_code == 0
    assert "the bound members are read from their Pods" in said.stderr
    lines = said.stdout.splitlines()
    assert lines[0] == "default/gang of train-1: bound, Slurm job 7, 2 of 2 members bound"
    assert [line.split()[:3] for line in lines[2:]] == [
        ["0", "default/train-0", "bound"],
        ["1", "default/train-1", "bound"],
    ]


def test_without_the_extender_a_pod_that_waits_and_a_list_of_gangs_cannot_be_shown(api: PlainApi) -> None:
    api.pods = [a_pod("train-0")]
    said = run_plugin("gangs", "train-0")
    assert said.exit_code == 1
    assert "has no record of a gang" in said.stderr
    assert "only the extender knows which Pods are gangs" in run_plugin("gangs").output


def test_ranks_and_sizes_that_any_user_wrote_on_a_pod_are_bounded(api: PlainApi) -> None:
    odd = bound_member("train-0", "0")
    odd["metadata"]["annotations"]["status.slurm-extender.io/gang-members"] = "9" * 5000
    api.pods = [odd, bound_member("train-1", "9" * 5000), bound_member("train-2", "²")]
    said = run_plugin("gangs", "train-0")
    assert said.exit_code == 0
    assert said.stdout.splitlines()[0] == "default/gang of train-0: bound, Slurm job 7, size not known"
    assert len(said.stdout.splitlines()) == 3


def test_answers_of_another_version_are_shown_as_far_as_they_go(api: PlainApi) -> None:
    api.lease, api.pods = LEASE, [a_pod("train-0")]
    api.debug = {"gangs/uid-train-0": {"name": 5, "members": [7, {"rank": None}, "x"], "membersLeftOut": "many"}}
    said = run_plugin("gangs", "train-0")
    assert said.exit_code == 0
    assert "size not known" in said.stdout


def test_why_of_a_pod_beyond_the_size_of_its_gang_reads_its_gang(api: PlainApi) -> None:
    api.lease, api.pods = LEASE, [a_pod("train-2")]
    api.debug = {"gangs/uid-train-2": {**WHOLE, "why": "Job train has all of its Pods."}}
    assert run_plugin("why", "train-2").stdout == "default/train-2: Job train has all of its Pods.\n"
