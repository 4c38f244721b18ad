"""What cannot become a job is told to its author once, in full, and costs Slurm nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lab.pods import pod
from lab.site import PodRef, Site
from tests.builders.stage import Stage

OWN, SUNK, BRIDGE = "slurm-extender.io/", "sunk.coreweave.com/", "slurmjob.slinky.slurm.net/"

pytestmark = pytest.mark.modes(slow=("24.11", "batch", "allocation", "external"))


def no_job(stage: Stage, ref: PodRef) -> None:
    assert stage.jobs(ref, "all") == []


@pytest.mark.parametrize(
    ("annotations", "named"),
    [
        ({OWN + "time-limit": "soon", OWN + "exclusive": "perhaps"}, ["time-limit", "exclusive"]),
        ({OWN + "partitoin": "batch"}, ["partitoin", "partition"]),
        ({OWN + "account": "one", SUNK + "account": "two"}, [OWN + "account", SUNK + "account"]),
        ({OWN + "begin": "yesterday", BRIDGE + "timelimit": "-1"}, ["begin", "timelimit"]),
    ],
    ids=["two bad values", "an unknown key", "prefixes that disagree", "two prefixes"],
)
def test_one_event_names_every_fault_and_a_repaired_pod_is_submitted(
    stage: Stage, annotations: dict[str, str], named: list[str]
) -> None:
    site = stage.site
    bad = stage.pod("bad", annotations=annotations)
    text = site.event(bad, "InvalidSlurmSettings")
    for name in named:
        assert name in text
    assert [reason for reason, _ in site.events(bad)].count("InvalidSlurmSettings") == 1
    no_job(stage, bad)
    site.annotate(bad, dict.fromkeys(annotations))
    assert site.bound(bad)


@pytest.mark.parametrize("requests", [{}, {"cpu": "1"}, {"memory": "1Gi"}, {"cpu": "0", "memory": "0"}])
def test_a_pod_without_requests_is_not_submitted(stage: Stage, requests: dict[str, str]) -> None:
    containers = [{"name": "main", "image": "lab/nothing", "resources": {"requests": requests}}]
    bad = stage.pod("bare", containers=containers)
    text = stage.site.event(bad, "InvalidSlurmSettings")
    for resource in {"cpu", "memory"} - {name for name, value in requests.items() if value != "0"}:
        assert resource in text
    no_job(stage, bad)


def test_an_unknown_key_of_a_peer_is_reported_and_does_no_harm(stage: Stage) -> None:
    site = stage.site
    fine = stage.pod("fine", annotations={SUNK + "new-in-their-next-release": "x"})
    assert site.bound(fine)
    assert "new-in-their-next-release" in site.event(fine, "UnknownSlurmSetting")


@contextlib.contextmanager
def configured(site: Site, group: str, keys: Mapping[str, Any]) -> Iterator[None]:
    """The extender started again with other settings, for the time of the block."""
    site.reconfigure({group: keys})
    try:
        yield
    finally:
        site.reconfigure()


def test_a_key_that_the_site_does_not_allow_is_refused(stage: Stage) -> None:
    site = stage.site
    with configured(site, "jobs", {"allow": []}):
        bad = stage.pod("bold", annotations={OWN + "user-id": "2001", OWN + "priority": "9"})
        text = site.event(bad, "InvalidSlurmSettings")
        assert "user-id" in text
        assert "priority" in text
        no_job(stage, bad)
        site.annotate(bad, {OWN + "user-id": None, OWN + "priority": None})
        assert site.bound(bad)


def test_slurms_final_no_is_passed_on_and_not_retried(stage: Stage) -> None:
    site = stage.site
    bad = stage.pod("lost", partition="no-such-partition")
    text = site.event(bad, "SlurmJobRejected")
    assert "2000" in text
    assert "partition" in text.lower()
    assert site.bound(stage.pod("meanwhile"))
    no_job(stage, bad)
    assert len([reason for reason, _ in site.events(bad) if reason == "SlurmJobRejected"]) == 1
    site.annotate(bad, {OWN + "partition": stage.family.main})
    assert site.bound(bad)


@pytest.mark.parametrize("state", ["DOWN", "DRAIN", "INACTIVE"])
def test_a_closed_partition_is_waited_for(stage: Stage, state: str) -> None:
    site, tiny = stage.site, stage.family.tiny
    site.slurm.run("scontrol", "update", f"PartitionName={tiny}", f"State={state}")
    try:
        early = stage.pod("early", partition=tiny)
        told = site.wait_for(
            lambda: [text for reason, text in site.events(early) if reason in {"SlurmJobPending", "SlurmRetrying"}],
            "an Event says that it waits",
        )
        assert any("partition" in text.lower() for text in told), told
        assert site.node_of(early) == ""
    finally:
        site.slurm.run("scontrol", "update", f"PartitionName={tiny}", "State=UP")
    assert site.bound(early, timeout_s=60) == stage.family.tiny_node


def test_a_waiting_job_that_a_user_cancels_is_not_submitted_again(stage: Stage) -> None:
    site, tiny = stage.site, stage.family.tiny
    first = stage.pod("first", partition=tiny, cpus=4)
    site.bound(first)
    second = stage.pod("second", partition=tiny, cpus=4)
    job = stage.job(second)
    stage.cancel(job.job_id)
    text = site.event(second, "SlurmJobCancelled")
    assert "Re-create or change" in text
    site.delete(first)
    site.gone(first)
    stage.wait_job_ended(second)
    assert len(stage.made(second)) == 1
    assert site.node_of(second) == ""
    site.kill_extender()
    site.start_extender()
    third = stage.pod("third", partition=tiny, cpus=4)
    site.bound(third)
    assert len(stage.made(second)) == 1
    assert site.node_of(second) == ""


@pytest.mark.parametrize("path", ["filter", "bind"])
@pytest.mark.parametrize("body", [None, [], {}, {"Pod": 3}, {"PodName": {}, "Node": 7}, "text"])
def test_a_malformed_question_is_answered_with_an_error(site: Site, path: str, body: object) -> None:
    status, answer = site.post_to_extender(path, body)
    assert status == 200
    assert answer["Error"]


def test_a_pod_of_another_scheduler_passes_unchanged(site: Site) -> None:
    stranger = pod("stranger", "default", scheduler="default-scheduler")
    stranger["metadata"]["uid"] = "5d1a2c1e-0000-4000-8000-000000000001"
    status, answer = site.post_to_extender("filter", {"Pod": stranger, "NodeNames": ["b", "a"], "Nodes": None})
    assert status == 200
    assert answer["NodeNames"] == ["b", "a"]


BROKEN = """\
apiVersion: slurm-extender.io/v1alpha1
kind: ExtenderConfiguration
slurm: {addresses: [somewhere], killWait: soon, tokenFlie: x}
jobs: {allow: [everything]}
"""


def test_a_broken_configuration_is_refused_with_every_error(site: Site) -> None:
    said = site.refused_configuration(BROKEN)
    for word in ("somewhere", "soon", "tokenFlie", "tokenFile", "everything"):
        assert word in said
