"""Why a Pod waits, asked as people ask: the Pod itself, kubectl slurm, and Slurm's own commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.site import PodRef
from tests.builders.stage import Stage

PROGRAM = Path(sys.executable).parent / "kubectl-slurm"


def run_plugin(stage: Stage, *words: str, code: int = 0, debug: bool = True) -> str:
    """What `kubectl-slurm` prints."""
    site = stage.site
    where = ["--kubeconfig", str(site.kube.kubeconfig), "-n", stage.namespace]
    if debug:
        where += ["--debug-url", f"http://127.0.0.1:{site.addresses.debug}"]
    done = subprocess.run([PROGRAM, *words, *where], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


def two_for_one_place(stage: Stage) -> tuple[PodRef, PodRef]:
    tiny = stage.family.tiny
    first = stage.pod("first", partition=tiny, cpus=4)
    stage.site.bound(first)
    return first, stage.pod("second", partition=tiny, cpus=4)


@pytest.mark.every_kubernetes
@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "allocation", "external", "older"))
def test_a_pod_that_waits_gets_the_cause_in_the_same_words_everywhere(stage: Stage) -> None:
    site = stage.site
    first, second = two_for_one_place(stage)
    job = stage.job(second)
    said = site.wait_for(lambda: stage.condition(second), "the condition", timeout_s=60, every_s=0.5)
    assert (said["status"], said["reason"]) == ("False", "SlurmJobQueued")
    assert said["message"].startswith(f"Slurm job {job.job_id} waits: ")
    assert f"Partition: {stage.family.tiny}." in said["message"]
    alone = run_plugin(stage, "why", "second", debug=False)
    assert alone == f"{stage.namespace}/second: {stage.condition(second)['message']}\n"
    assert f"Slurm job {job.job_id} waits: " in run_plugin(stage, "why", "second")
    assert f"Slurm job {job.job_id} waits: " in (site.debug(second.uid) or {})["why"]
    assert f"Slurm job {job.job_id} waits: " in site.event(second, "SlurmJobPending")
    rows = {row["name"]: row for row in json.loads(run_plugin(stage, "jobs", "-o", "json"))}
    assert rows["second"]["job"] == job.job_id
    assert rows["first"]["node"] == site.node_of(first)
    assert "SlurmJobQueued" in run_plugin(stage, "status", debug=False)
    assert "WAITING" in run_plugin(stage, "history", "second")
    site.delete(first)
    site.bound(second, timeout_s=40)
    site.wait_for(lambda: stage.condition(second)["status"] == "True", "it is told of its node", timeout_s=60)


@pytest.mark.modes("batch", "external", slow=("24.11", "external"))
def test_drain_and_resume_reach_slurm_with_nothing_but_the_api_server(stage: Stage) -> None:
    site, node = stage.site, stage.family.tiny_node
    try:
        run_plugin(stage, "drain", node, debug=False)
        site.wait_for(lambda: [one for one in stage.drained() if "cordoned" in one], "it is drained", timeout_s=20)
        site.wait_for(
            lambda: "DRAIN" in json.loads(run_plugin(stage, "nodes", node, "-o", "json"))[0]["slurmState"],
            "the next look at Slurm's nodes shows it",
            every_s=1,
        )
        (shown,) = json.loads(run_plugin(stage, "nodes", node, "-o", "json"))
        assert shown["cordoned"] is True
        assert "cordoned" in shown["held"]
    finally:
        run_plugin(stage, "resume", node, debug=False)
    site.wait_for(lambda: not stage.drained(), "it is resumed", timeout_s=30)


@pytest.mark.modes("batch", slow=("24.11",))
def test_a_viewer_can_read_everything_and_change_nothing(stage: Stage) -> None:
    site = stage.site
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"view-{stage.namespace}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "slurm-extender-view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "a-viewer"}],
    }
    role = (Path("manifests/core") / "rbac-view.yaml").read_text(encoding="utf-8")
    site.apply(role)
    site.apply(json.dumps(binding))
    first, _ = two_for_one_place(stage)
    viewer = ("--as", "a-viewer")
    site.wait_for(lambda: site.node_of(first), "the first runs")
    for words in (("status",), ("jobs",), ("jobs", "-A"), ("nodes",), ("why", "second"), ("history", "second")):
        run_plugin(stage, *words, *viewer, debug=False)
    run_plugin(stage, "drain", stage.family.tiny_node, *viewer, code=1, debug=False)
    assert not stage.drained()


@pytest.mark.modes("batch", "allocation", "external", slow=("allocation", "external"))
def test_slurms_own_commands_show_which_pod_a_job_is_for(stage: Stage) -> None:
    site = stage.site
    plain = stage.pod("plain")
    said = stage.pod(
        "said", annotations={"slurm-extender.io/comment": "night run", "slurm-extender.io/job-name": "sum"}
    )
    for ref in (plain, said):
        site.bound(ref)
    (job,) = stage.jobs(plain)
    named = f"{stage.namespace}/plain"
    shown = site.slurm.run("squeue", "-h", "-j", str(job.job_id), "-O", "JobID:20,Name:100,Comment:100")
    assert named in shown
    assert f"Kubernetes Pod {named}" in shown
    every = site.scontrol_show_job(job.job_id)
    assert every["JobName"].startswith(f"{named}-")
    assert f'"p":"{named}"' in every["AdminComment"].replace(" ", "")
    (other,) = [one for one in site.squeue() if one.job_id != job.job_id]
    every = site.scontrol_show_job(other.job_id)
    assert every["Comment"] == "night run"
    assert f'"p":"{stage.namespace}/said"' in every["AdminComment"].replace(" ", "")
