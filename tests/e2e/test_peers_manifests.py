"""Pods as users of SUNK and of slurm-bridge write them work unchanged."""

from __future__ import annotations

import pytest

from extender.domain.translation.annotation_table import BY_BRIDGE_NAME
from lab.pods import required_affinity
from lab.topology import GPU_MODEL
from tests.builders.stage import Stage, sharing

pytestmark = pytest.mark.modes("auto")


def test_a_whole_gpu_node_as_a_user_of_sunk_requests_it(stage: Stage) -> None:
    site = stage.site
    pod = site.pod(
        "training",
        stage.namespace,
        cpus=110,
        memory="900Gi",
        gpus=8,
        grace_s=5,
        affinity=required_affinity(GPU_MODEL, ["H100"]),
        annotations={
            "sunk.coreweave.com/account": "research",
            "sunk.coreweave.com/comment": "A Kubernetes job",
            "sunk.coreweave.com/exclusive": "none",
        },
    )
    node = site.bound(pod)
    job = site.scontrol_show_job(stage.job(pod).job_id)
    assert node == f"kube-{job['NodeList']}"
    assert job["Account"] == "research"
    assert job["Comment"] == "A Kubernetes job"
    assert sharing(job) == "none"
    assert "gpu:h100:8" in job["TresPerNode"]


def test_one_gpu_on_a_node_shared_with_the_same_user(stage: Stage) -> None:
    site = stage.site
    pods = [
        site.pod(
            name,
            stage.namespace,
            cpus=4,
            memory="16Gi",
            gpus=1,
            affinity=required_affinity(GPU_MODEL, ["H100"]),
            annotations={"sunk.coreweave.com/exclusive": "user", "sunk.coreweave.com/user-id": "2001"},
        )
        for name in ("one", "two")
    ]
    for pod in pods:
        site.bound(pod)
        job = site.scontrol_show_job(stage.job(pod).job_id)
        assert job["UserId"].endswith("(2001)")
        assert job["GroupId"].endswith("(2001)")
        assert sharing(job) == "user"
        assert "gpu:h100:1" in job["TresPerNode"]


BRIDGE = {
    "account": "physics",
    "constraints": "tested",
    "cpu-per-task": "3",
    "exclusive": "false",
    "gres": "gpu:1",
    "group-id": "2002",
    "job-name": "bridged",
    "licenses": "matlab:1",
    "max-nodes": "1",
    "mem-per-node": "2Gi",
    "min-nodes": "1",
    "partition": "batch",
    "priority": "77",
    "timelimit": "15",
    "user-id": "2002",
    "wckey": "key",
}


@pytest.mark.parametrize("on_owner", [False, True], ids=["on the Pod", "on its root owner"])
def test_every_annotation_of_slurm_bridge(stage: Stage, on_owner: bool) -> None:
    site = stage.site
    # A reservation and a QOS need a site that has them; test_accounting.py shows them.
    assert BRIDGE.keys() | {"qos", "reservation"} == BY_BRIDGE_NAME.keys()
    said = {f"slurmjob.slinky.slurm.net/{key}": value for key, value in BRIDGE.items()}
    template = {
        "metadata": {"labels": {"app": "bridge"}, "annotations": {} if on_owner else said},
        "spec": {**stage.template("bridge")["spec"]},
    }
    body = {
        "metadata": {"name": "bridge", "annotations": said if on_owner else {}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "bridge"}}, "template": template},
    }
    status, answer = site.kube.api("POST", f"/apis/apps/v1/namespaces/{stage.namespace}/deployments", body)
    assert status == 201, answer
    found = site.wait_for(lambda: [job for job in site.squeue() if job.name.startswith("bridged-")], "the job is there")
    job = site.scontrol_show_job(found[0].job_id)
    assert job["Account"] == "physics"
    assert job["CPUs/Task"] == "3"
    assert job["UserId"].endswith("(2002)")
    assert job["GroupId"].endswith("(2002)")
    assert job["Features"] == "tested"
    assert job["NumNodes"].split("-")[-1] == "1"  # "1-1" while it waits
    assert job["Licenses"] == "matlab:1"
    assert job["MinMemoryNode"] == "2G"
    assert job["Partition"] == "batch"
    assert job["Priority"] == "77"
    assert job["TimeLimit"] == "00:15:00"
    assert job["TresPerNode"] == "gres/gpu:1"
    assert "key" in site.rest_job(found[0].job_id)["wckey"]
