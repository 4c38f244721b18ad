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


def test_a_job_that_is_no_gang_is_shown_as_before(tmp_path: Path) -> None:
    code, said = translated(tmp_path, JOB.replace(GANG, "labels: {}"))
    assert code == 0
    assert "gang" not in said
    assert "members: 1" in said


def test_a_gang_that_cannot_be_used_is_refused_with_what_to_do(tmp_path: Path) -> None:
    code, said = translated(tmp_path, JOB.replace("'true'", "maybe"))
    assert code == 1
    assert 'slurm-extender.io/gang: "maybe" on a Job is not allowed; it must be true or false.' in said


@pytest.mark.parametrize("size", ["0", "many", "99999", "{}"])
def test_a_size_that_is_no_number_of_members_is_refused(tmp_path: Path, size: str) -> None:
    code, said = translated(tmp_path, GROUP.replace("size: 3", f"size: {size}"))
    assert code == 1
    assert "leaderworkerset.sigs.k8s.io/size" in said
