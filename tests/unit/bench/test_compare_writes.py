"""The comparison of writes: which fields count, what a rename does, and which differences are reported."""

from __future__ import annotations

from bench.compare_writes import differences, fields, renamed

WRITE = "Kubernetes PATCH pods: metadata.annotations.slurm-extender.io/job, status"


def test_fields_are_the_paths_of_leaves_without_their_values() -> None:
    body = {"job": {"extra": '{"unit": "u"}', "nodes": ["n1", "n2"], "environment": ["PATH=/bin"]}}
    assert sorted(set(fields(body))) == ["job.environment.PATH", "job.extra.unit", "job.nodes[]"]


def test_an_operation_of_a_json_patch_is_one_field() -> None:
    assert list(fields([{"op": "remove", "path": "/spec/schedulingGates/0"}])) == ["[]remove /spec/schedulingGates/0"]


def test_a_renamed_field_is_no_difference_and_a_longer_name_is_not_renamed() -> None:
    longer = WRITE.replace("/job", "/job-id")
    after = {"1": {"default/web": {WRITE.replace("/job", "/granted"): 1, longer: 1}}}
    before = renamed(
        {"1": {"default/web": {WRITE: 1, longer: 1}}}, [("slurm-extender.io/job", "slurm-extender.io/granted")]
    )
    assert list(differences(before, after)) == []


def test_a_write_that_is_more_frequent_is_a_difference() -> None:
    before, after = {"1": {"default/web": {WRITE: 1}}}, {"1": {"default/web": {WRITE: 2}}}
    assert list(differences(before, after)) == [("1", "default/web", WRITE, 1, 2)]
