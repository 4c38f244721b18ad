"""PodGroups of coscheduling and Volcano on the real parts: one job for their Pods, and a status that follows them.

The API server gets their definitions alone; their controllers do not run.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from extender.domain.gangs import labels
from extender.domain.wellknown import GANG_RANK
from lab import manifests
from lab.site import PodRef, Site
from tests.builders.pod_group_kinds import COSCHEDULING, DEFINITIONS, VOLCANO
from tests.builders.stage import Stage

pytestmark = pytest.mark.modes("batch", slow=("24.11",))
GROUPS = {
    "scheduling.x-k8s.io": ("v1alpha1", COSCHEDULING),
    "scheduling.volcano.sh": ("v1beta1", VOLCANO),
}


@pytest.fixture
def reading(stage: Stage) -> Iterator[Site]:
    """The site with the component `pod-groups`, and an API server that serves both kinds."""
    site = stage.site
    rights = manifests.of_kind(
        manifests.render(site.kube, components=[f"kubernetes-{site.kube.minor}", "pod-groups"]), manifests.RIGHTS
    )
    manifests.apply_rights(site.kube, rights)
    for group, (version, definition) in GROUPS.items():
        status, answer = site.kube.api("POST", DEFINITIONS, definition)
        assert status in {201, 409}, answer
        path = f"/apis/{group}/{version}/podgroups"
        site.wait_for(partial(_is_served, site, path), f"{path} is served", timeout_s=60)
    site.reconfigure({"gangs": {"unfenced": "allow", "podGroups": list(GROUPS)}})
    try:
        yield site
    finally:
        stage.finish()
        site.reconfigure()


def _is_served(site: Site, path: str) -> bool:
    return bool(site.kube.api("GET", path)[0] == 200)


def path_of(stage: Stage, group: str) -> str:
    return f"/apis/{group}/{GROUPS[group][0]}/namespaces/{stage.namespace}/podgroups"


def add_group(stage: Stage, group: str, least: int) -> None:
    body = {"apiVersion": f"{group}/{GROUPS[group][0]}", "kind": "PodGroup", "metadata": {"name": "ring"}}
    status, answer = stage.site.kube.api("POST", path_of(stage, group), {**body, "spec": {"minMember": least}})
    assert status == 201, answer


def members(stage: Stage, group: str, count: int) -> list[PodRef]:
    named: dict[str, Any] = {"labels": {labels.COSCHEDULING_GROUP: "ring"}}
    if group == "scheduling.volcano.sh":
        named = {"annotations": {labels.VOLCANO_GROUPS[0]: "ring"}}
    return [stage.pod(f"ring-{number}", cpus=2, **named) for number in range(count)]


@pytest.mark.parametrize(
    "group", ["scheduling.x-k8s.io", pytest.param("scheduling.volcano.sh", marks=pytest.mark.slow)]
)
@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "allocation", "external"))
def test_the_pods_of_a_pod_group_wait_for_it_and_start_together(stage: Stage, reading: Site, group: str) -> None:
    pods = members(stage, group, 3)
    reading.elapse(3)
    assert stage.jobs() == []
    add_group(stage, group, 3)
    nodes = [reading.bound(pod) for pod in pods]
    (job,) = stage.jobs()
    assert job.name.startswith(f"{stage.namespace}/PodGroup ring-")
    assert len(set(nodes)) == 3
    for rank, pod in enumerate(pods):
        assert (reading.read(pod) or {})["metadata"]["annotations"][GANG_RANK] == str(rank)


def test_the_phase_of_coscheduling_says_that_its_pods_run(stage: Stage, reading: Site) -> None:
    group = "scheduling.x-k8s.io"
    add_group(stage, group, 2)
    for pod in members(stage, group, 2):
        reading.bound(pod)

    def phase() -> str:
        _, said = reading.kube.api("GET", f"{path_of(stage, group)}/ring")
        return str(said.get("status", {}).get("phase", ""))

    reading.wait_for(lambda: phase() == "Running", "the phase says that the Pods run", timeout_s=60)
