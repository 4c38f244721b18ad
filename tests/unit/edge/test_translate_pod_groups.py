"""`slurm-extender translate` reads the PodGroups in its files, and shows the one job of their Pods."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from extender.cli.translate import translate_manifests
from simulator.cluster import CONFIG

POD = "{schedulerName: slurm, containers: [{name: m, image: i, resources: {requests: {cpu: '2', memory: 1Gi}}}]}"
LABEL = "labels: {scheduling.x-k8s.io/pod-group: ring}"
JOB = f"""apiVersion: batch/v1
kind: Job
metadata: {{name: train}}
spec: {{parallelism: 4, completions: 4, template: {{metadata: {{{LABEL}}}, spec: {POD}}}}}
"""
GROUP = """apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: ring}
spec: {minMember: 4}
"""
UPSTREAM = """apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: ring}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
"""
PODS = "---\n".join(
    f"apiVersion: v1\nkind: Pod\nmetadata: {{name: ring-{number}}}\n"
    f"spec: {POD.replace('{scheduler', '{schedulingGroup: {podGroupName: ring}, scheduler', 1)}\n"
    for number in range(2)
)


def translated(tmp_path: Path, text: str, *more: str) -> tuple[int, str]:
    file = tmp_path / "manifest.yaml"
    file.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(translate_manifests, [str(file), *more])
    return result.exit_code, result.output


@pytest.mark.parametrize("text", [f"{GROUP}---\n{JOB}", f"{JOB}---\n{GROUP}"])
def test_the_pods_of_a_pod_group_get_one_job_wherever_it_stands_in_the_files(tmp_path: Path, text: str) -> None:
    code, said = translated(tmp_path, text)
    assert code == 0
    assert "PodGroup ring is a gang: 4 Pods get this one job" in said
    assert "members: 4" in said
    assert "default/PodGroup ring" in said
    assert "skipped" not in said


def test_pods_of_a_pod_group_of_kubernetes_share_its_job(tmp_path: Path) -> None:
    code, said = translated(tmp_path, f"{UPSTREAM}---\n{PODS}")
    assert code == 0
    assert "PodGroup ring is a gang: 2 Pods get this one job" in said
    assert said.count("job:") == 1


def test_a_pod_group_of_another_namespace_is_another_one(tmp_path: Path) -> None:
    code, said = translated(tmp_path, f"{GROUP.replace('name: ring', 'name: ring, namespace: team')}---\n{JOB}")
    assert code == 0
    assert "PodGroup ring is not in the input" in said


@pytest.mark.parametrize("read", [False, True])
def test_with_a_configuration_its_api_groups_alone_are_read(tmp_path: Path, read: bool) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG + ("gangs: {podGroups: [scheduling.x-k8s.io]}\n" if read else ""), encoding="utf-8")
    code, said = translated(tmp_path, f"{GROUP}---\n{JOB}", "--config", str(config))
    assert code == 0
    assert ("PodGroup ring is a gang: 4 Pods" in said) is read
    assert ("gangs.podGroups of the configuration does not name scheduling.x-k8s.io" in said) is not read


@pytest.mark.parametrize(
    "spec", ["{minMember: many}", "[]", "{minMember: 99999999999999999999}"], ids=["text", "a list", "a huge number"]
)
def test_a_pod_group_of_another_form_is_named(tmp_path: Path, spec: str) -> None:
    code, said = translated(tmp_path, f"{GROUP.replace('{minMember: 4}', spec)}---\n{JOB}")
    assert code == 1
    assert "not a PodGroup: spec" in said


def test_a_pod_group_of_another_api_makes_no_gang(tmp_path: Path) -> None:
    text = GROUP.replace("scheduling.x-k8s.io", "example.org")
    code, said = translated(tmp_path, f"{text}---\n{JOB}")
    assert code == 0
    assert "skipped PodGroup ring: it has no Pod template" in said
