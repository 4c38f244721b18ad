"""`kubectl slurm drain` and `resume`: twice is as once, and only our own is undone."""

from __future__ import annotations

import json

import pytest

from tests.builders.kubectl_program import a_node, run_plugin
from tests.builders.plain_api import PlainApi

REASON = "slurm-extender.io/drain-reason"


def test_drain_cordons_and_says_why_on_the_node(api: PlainApi) -> None:
    api.nodes = [a_node("n1")]
    said = run_plugin("drain", "node/n1", "--reason", "  bad\n disk ")
    assert said.exit_code == 0
    assert said.stdout.startswith("node/n1 cordoned: ")
    body = {"metadata": {"uid": "uid-n1", "annotations": {REASON: "bad disk"}}, "spec": {"unschedulable": True}}
    assert api.patches == [("/api/v1/nodes/n1", body)]
    assert ("Content-Type", "application/merge-patch+json") in api.headers


def test_resume_undoes_drain(api: PlainApi) -> None:
    api.nodes = [a_node("n1", cordoned=True, annotations={REASON: "bad disk"})]
    assert run_plugin("resume", "n1").stdout.startswith("node/n1 uncordoned: ")
    body = {"metadata": {"uid": "uid-n1", "annotations": {REASON: None}}, "spec": {"unschedulable": None}}
    assert api.patches == [("/api/v1/nodes/n1", body)]


@pytest.mark.parametrize("words", [("drain", "n1"), ("drain", "n1", "--reason", "bad disk"), ("resume", "n2")])
def test_what_is_so_already_is_left_as_it_is(api: PlainApi, words: tuple[str, ...]) -> None:
    api.nodes = [a_node("n1", cordoned=True, annotations={REASON: "bad disk"}), a_node("n2")]
    said = run_plugin(*words)
    assert said.exit_code == 0
    assert "unchanged" in said.stdout
    assert not api.patches


def test_drain_again_gives_another_reason(api: PlainApi) -> None:
    api.nodes = [a_node("n1", cordoned=True, annotations={REASON: "bad disk"})]
    assert run_plugin("drain", "n1", "--reason", "new disk").stdout.startswith("node/n1 annotated: ")
    assert api.patches[0][1]["metadata"]["annotations"] == {REASON: "new disk"}


def test_the_cordon_of_another_is_neither_adopted_nor_lifted(api: PlainApi) -> None:
    api.nodes = [a_node("n1", cordoned=True)]
    assert "resume will leave that alone" in run_plugin("drain", "n1", "--reason", "mine").stdout
    said = run_plugin("resume", "n1")
    assert said.exit_code == 1
    assert "was not cordoned by `kubectl slurm drain`" in said.stderr
    assert not api.patches


def test_a_reason_that_remains_does_not_make_a_later_cordon_the_extenders(api: PlainApi) -> None:
    api.nodes = [a_node("n1", annotations={REASON: "bad disk"})]
    said = run_plugin("resume", "n1")
    assert said.exit_code == 0
    assert api.patches[0][1]["metadata"]["annotations"] == {REASON: None}


def test_resume_does_not_lift_what_the_extender_or_slurm_put_there(api: PlainApi) -> None:
    api.nodes = [
        a_node("n1", cordoned=True, annotations={"status.slurm-extender.io/cordoned-by": "slurm"}),
        a_node("n2", annotations={"status.slurm-extender.io/slurm-unavailable-reason": "slurm: DRAIN bad disk"}),
        a_node("n3", cordoned=True, annotations={REASON: "x", "status.slurm-extender.io/uncordoned-manually": "slurm"}),
    ]
    said = run_plugin("resume", "n1", "n2", "n3", "n4")
    assert said.exit_code == 1
    assert "scontrol update NodeName=n1 State=RESUME" in said.stderr
    assert "bad disk" in said.stderr
    assert "there is no Node n4" in said.stderr
    assert [path for path, _ in api.patches] == ["/api/v1/nodes/n3"]


def test_a_dry_run_changes_nothing(api: PlainApi) -> None:
    api.nodes = [a_node("n1")]
    for words in (("--dry-run",), ("--dry-run=client",)):
        assert run_plugin("drain", "n1", *words).stdout.startswith("node/n1 cordoned (dry run): ")
    assert not api.patches
    assert run_plugin("drain", "n1", "--dry-run=server").stdout.startswith("node/n1 cordoned (server dry run): ")
    assert "PATCH /api/v1/nodes/n1?dryRun=All" in api.requests
    assert run_plugin("drain", "n1", "--dry-run=perhaps").exit_code == 2


def test_programs_get_what_became_of_each_node(api: PlainApi) -> None:
    api.nodes = [a_node("n1"), a_node("n2", cordoned=True)]
    rows = json.loads(run_plugin("drain", "n1", "n2", "-o", "json").stdout)
    assert [(row["name"], row["result"]) for row in rows] == [("n1", "cordoned"), ("n2", "unchanged")]
    assert run_plugin("drain", "n1", "n2", "-o", "name").stdout == "node/n1\nnode/n2\n"


def test_a_user_that_may_not_patch_nodes_gets_the_role_that_may(api: PlainApi) -> None:
    api.nodes, api.unchangeable = [a_node("n1")], True
    said = run_plugin("drain", "n1")
    assert said.exit_code == 1
    assert "slurm-extender-operate" in said.stderr
    assert said.stdout == ""


def test_release_writes_when_it_was_said(api: PlainApi) -> None:
    api.nodes = [a_node("n1")]
    said = run_plugin("release", "n1")
    assert said.exit_code == 0
    assert said.stdout.startswith("node/n1 released: ")
    [(path, body)] = api.patches
    assert path == "/api/v1/nodes/n1"
    assert body["metadata"]["uid"] == "uid-n1"
    assert body["metadata"]["annotations"]["slurm-extender.io/released-at"].endswith("Z")


def test_release_needs_the_name_of_a_node(api: PlainApi) -> None:
    said = run_plugin("release")
    assert said.exit_code == 2
    assert "Missing argument 'NODE...'" in said.stderr
    assert "-l" not in said.stderr
    assert not api.patches


def test_release_without_effect_writes_nothing(api: PlainApi) -> None:
    api.nodes = [a_node("n1")]
    assert "dry run" in run_plugin("release", "n1", "--dry-run").stdout
    assert not api.patches
