"""`slurm-extender translate` shows the one job of a gang."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from extender.cli.translate import translate_manifests

POD = (
    "{spec: {schedulerName: slurm, containers: [{name: m, image: i, resources: {requests: {cpu: '2', memory: 1Gi}}}]}}"
)
GANG = "annotations: {slurm-extender.io/gang: 'true'}"
JOB = f"""apiVersion: batch/v1
kind: Job
metadata: {{name: train, {GANG}}}
spec: {{parallelism: 4, completions: 4, template: {POD}}}
"""
GROUP = f"""apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: vllm}}
spec: {{leaderWorkerTemplate: {{size: 3, workerTemplate: {POD}}}}}
"""
SET = f"""apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: sweep, annotations: {{slurm-extender.io/gang: set}}}}
spec:
  replicatedJobs: [{{name: w, replicas: 2, template: {{spec: {{parallelism: 3, completions: 3, template: {POD}}}}}}}]
"""


def translated(tmp_path: Path, text: str) -> tuple[int, str]:
    file = tmp_path / "manifest.yaml"
    file.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(translate_manifests, [str(file)])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("text", "title", "members"),
    [
        (JOB, "default/Job train", 4),
        (GROUP, "default/LeaderWorkerSet vllm, group 0", 3),
        (SET, "default/JobSet sweep", 6),
    ],
)
def test_a_gang_is_one_job_with_a_node_for_each_pod(tmp_path: Path, text: str, title: str, members: int) -> None:
    code, said = translated(tmp_path, text)
    assert code == 0
    assert f"is a gang: {members} Pods get this one job" in said
    assert f"members: {members}" in said
    assert title in said


def test_a_job_that_is_no_gang_is_counted_pod_by_pod(tmp_path: Path) -> None:
    code, said = translated(tmp_path, JOB.replace(GANG, "labels: {}"))
    assert code == 0
    assert "# 4 Pods, 4 Slurm jobs; each Pod gets a job of its own and starts by itself (no gang)" in said
    assert "make them a gang by the annotation slurm-extender.io/gang" in said
    assert "members: 1" in said


@pytest.mark.parametrize(
    ("of", "jobs"), [("job", "2 gangs such as Job sweep-w: 3 Pods"), ("replicated-job", "JobSet sweep, w is a gang: 6")]
)
def test_the_pods_of_a_job_set_that_are_a_gang_are_as_its_annotation_says(tmp_path: Path, of: str, jobs: str) -> None:
    code, said = translated(tmp_path, SET.replace("gang: set", f"gang: {of}"))
    assert code == 0
    assert jobs in said


def test_leader_and_workers_of_a_group_share_one_job_with_the_larger_size(tmp_path: Path) -> None:
    leader = POD.replace("cpu: '2'", "cpu: '6'")
    text = GROUP.replace("size: 3,", f"size: 3, leaderTemplate: {leader},").replace(
        "spec: {leaderWorker", "spec: {replicas: 4, leaderWorker", 1
    )
    code, said = translated(tmp_path, text)
    assert code == 0
    assert said.count("job:") == 1
    assert "4 gangs such as LeaderWorkerSet vllm, group 0: 3 Pods of each get one job" in said
    assert "cpus: 6" in said
    assert "requests less than the largest member of its gang" in said


def test_pods_that_name_one_gang_share_one_job_whichever_file_they_are_in(tmp_path: Path) -> None:
    pod = """apiVersion: v1
kind: Pod
metadata: {name: w-%s, annotations: {slurm-extender.io/gang: mesh, slurm-extender.io/gang-size: "3"}}
spec: {schedulerName: slurm, containers: [{name: m, image: i, resources: {requests: {cpu: 1, memory: 1Gi}}}]}
---
"""
    code, said = translated(tmp_path, pod % 0 + pod % 1)
    assert code == 0
    assert said.count("job:") == 1
    assert "gang mesh is a gang: 3 Pods get this one job, and start together; 2 Pods of it in the input" in said


def test_members_that_request_different_things_of_one_job_are_refused(tmp_path: Path) -> None:
    leader = POD.replace("{spec:", "{metadata: {annotations: {slurm-extender.io/partition: big}}, spec:")
    code, said = translated(tmp_path, GROUP.replace("size: 3,", f"size: 3, leaderTemplate: {leader},"))
    assert code == 1
    assert "partition: default/vllm has" in said


def test_a_gang_of_a_cron_job_is_one_job_for_each_run(tmp_path: Path) -> None:
    text = JOB.replace(
        "batch/v1\nkind: Job\nmetadata: {name: train, ",
        "batch/v1\nkind: CronJob\nmetadata: {name: n}\nspec:\n jobTemplate:\n  metadata: {",
    )
    code, said = translated(tmp_path, text.replace("\nspec: {par", "\n  spec: {par"))
    assert code == 0
    assert "Job n is a gang: 4 Pods get this one job, and start together for each run" in said


def test_a_gang_that_cannot_be_used_is_refused_with_what_to_do(tmp_path: Path) -> None:
    code, said = translated(tmp_path, JOB.replace("'true'", "maybe"))
    assert code == 1
    assert 'slurm-extender.io/gang: "maybe" on a Job is not allowed; it must be true or false.' in said


@pytest.mark.parametrize("size", ["0", "many", "99999", "{}"])
def test_a_size_that_is_no_number_of_members_is_refused(tmp_path: Path, size: str) -> None:
    code, said = translated(tmp_path, GROUP.replace("size: 3", f"size: {size}"))
    assert code == 1
    assert "leaderworkerset.sigs.k8s.io/size" in said
