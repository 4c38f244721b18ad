"""Gangs of PodGroups beside the real controller of scheduler-plugins, which writes the same status as the extender."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from extender.domain.gangs import labels
from lab import manifests
from lab.gang_controllers import POD_GROUPS, running
from lab.pods import RUN_FOR
from lab.site import Site
from tests.builders.gang_controllers import (
    STEADY_S,
    bound_pods,
    by_index,
    collection,
    one_gang,
    parallel_job,
    template,
    warned_once,
)
from tests.builders.stage import Stage

pytestmark = [pytest.mark.controllers, pytest.mark.slow, pytest.mark.modes("batch")]

GROUP = "scheduling.x-k8s.io"
KIND = (f"/apis/{GROUP}/v1alpha1", "podgroups")
OTHER_WRITER = "PodGroupStatusConflict"


@pytest.fixture(scope="module")
def controller(site: Site) -> Iterator[None]:
    """The controller of scheduler-plugins, and the rights of the component `pod-groups` for the extender."""
    documents = manifests.render(site.kube, components=[f"kubernetes-{site.kube.minor}", "pod-groups"])
    manifests.apply_rights(site.kube, documents)
    with running(site.kube, POD_GROUPS):
        yield


@pytest.fixture
def reading(stage: Stage, controller: None) -> Iterator[Stage]:
    """A stage whose extender reads PodGroups."""
    stage.site.reconfigure({"gangs": {"unfenced": "allow", "podGroups": [GROUP]}})
    try:
        yield stage
    finally:
        stage.finish()
        stage.site.reconfigure()


def add_group(stage: Stage, least: int) -> None:
    body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "PodGroup", "metadata": {"name": "ring"}}
    stage.site.create(collection(stage, KIND), {**body, "spec": {"minMember": least}})


def group(stage: Stage) -> dict[str, Any]:
    found: dict[str, Any] = stage.site.kube.api("GET", f"{collection(stage, KIND)}/ring")[1]
    return found


def phase(stage: Stage) -> str:
    return str(group(stage).get("status", {}).get("phase", ""))


def add_job(stage: Stage, pods: int, **annotations: str) -> None:
    pod = template(stage, annotations=annotations, labels={labels.COSCHEDULING_GROUP: "ring"})
    parallel_job(stage, "ring", pods, pod)


def conflicts(stage: Stage) -> int:
    """How many Events say that another controller writes the status."""
    path = f"/apis/events.k8s.io/v1/namespaces/{stage.namespace}/events?limit=500"
    return sum(one["reason"] == OTHER_WRITER for one in stage.site.kube.api("GET", path)[1]["items"])


@pytest.mark.modes("batch", "allocation", "external")
def test_two_writers_of_a_pod_group_agree_on_its_status_and_then_write_no_more(reading: Stage) -> None:
    stage, site = reading, reading.site
    add_job(stage, 3)
    site.elapse(3)
    assert stage.jobs() == []
    add_group(stage, 3)
    one_gang(stage, by_index(stage, 3))
    site.wait_for(lambda: phase(stage) == "Running", "the phase says that the Pods run", timeout_s=60)
    site.wait_for(lambda: group(stage)["status"].get("running") == 3, "all Pods are counted", timeout_s=60)
    before = group(stage)
    site.elapse(2 * STEADY_S)
    assert group(stage)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert conflicts(stage) <= 1


def test_the_phase_of_a_pod_group_with_two_writers_ends_as_finished(reading: Stage) -> None:
    stage = reading
    add_group(stage, 3)
    add_job(stage, 3, **{RUN_FOR: "4s"})
    one_gang(stage, by_index(stage, 3))
    stage.site.wait_for(lambda: phase(stage) == "Finished", "the phase says that all Pods succeeded", timeout_s=60)
    stage.site.elapse(STEADY_S)
    assert phase(stage) == "Finished"


def test_the_author_of_a_pod_group_that_the_extender_does_not_read_is_warned_once(
    stage: Stage, controller: None
) -> None:
    add_group(stage, 3)
    add_job(stage, 3)
    bound_pods(stage, 3)
    assert len(stage.jobs()) == 3
    assert "PodGroup ring" in warned_once(stage)
    stage.site.wait_for(lambda: phase(stage) == "Running", "its controller says that the Pods run", timeout_s=60)
