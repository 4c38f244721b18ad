"""Gangs with ResourceClaims on real kubelets: each member has the device that Slurm gave its rank, or none is reserved.

An error of `/bind` makes kube-scheduler undo the reservations of a Pod: a member that voted early loses its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import pytest

from lab.build_slurm import RELEASES
from lab.devices import API, RESOURCE, template
from lab.kubelet_site import KubeletSite
from lab.pods import container
from lab.site import PodRef, QueuedJob
from tests.builders.changed_nodes import changed
from tests.builders.kubelet_devices import device_nodes
from tests.builders.native_jobs import submit_native_job
from tests.builders.stage import Stage
from tests.builders.staged_gangs import all_bound, assert_none_bound, before_binding, nodes_of

pytestmark = [pytest.mark.lab, pytest.mark.kubelet, pytest.mark.slow]

SIZE, EACH = 4, 2
NAMES = tuple(f"node-{number}" for number in range(1, SIZE + 1))
BIND_WITHIN_S = 30
"""`gangs.bindWithin` by default."""

TAINT = {"spec": {"taints": [{"key": "e2e/gang", "value": "x", "effect": "NoSchedule"}]}}
SHOW = "env | grep -E '^GPU_DEVICE_[0-9]+='; exec sleep 600"
_DEVICE = re.compile(r"^GPU_DEVICE_[0-9]+=(gpu-[0-9]+)$", re.MULTILINE)
_INDEX = re.compile(r"\(IDX:(\d+)\)")
Requesting = Callable[[], dict[str, Any]]

_numbers = count(1)


@pytest.fixture(scope="module", params=RELEASES)
def four(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeletSite]:
    """Four nodes of two devices that a driver publishes and prepares."""
    config: dict[str, dict[str, Any]] = {"gangs": {"unfenced": "allow"}}
    with device_nodes(request.param, NAMES, EACH, config, tmp_path_factory.mktemp("gang-devices")) as found:
        yield found


@pytest.fixture
def resource_claims(four: KubeletSite) -> Iterator[Stage]:
    """A namespace with a template of ResourceClaims, beside a native job that has the first device of one node."""
    stage = Stage(four, "batch", four.namespace(f"gang-devices-{next(_numbers)}"))
    template(four, stage.namespace, "of-1", 1)
    native = submit_native_job(four, "batch", cpus=1, nodes=[NAMES[1]], gpus=1, script=["exec sleep 3600"])
    stage.foreign.append(native)
    stage.running(native)
    yield stage
    stage.finish()


def by_resource_claim() -> dict[str, Any]:
    """Fields of a Pod that names a ResourceClaim for one device."""
    made = container(SHOW, cpus=2, memory="64Mi")
    made["resources"]["claims"] = [{"name": "g"}]
    return {"containers": [made], "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "of-1"}]}


def by_extended_resource() -> dict[str, Any]:
    """Fields of a Pod for which kube-scheduler creates a ResourceClaim and deletes it after an error."""
    made = container(SHOW, cpus=2, memory="64Mi")
    for kind in ("requests", "limits"):
        made["resources"][kind] = {**made["resources"][kind], RESOURCE: "1"}
    return {"containers": [made]}


@contextmanager
def granted_gang(stage: Stage, requesting: Requesting) -> Iterator[tuple[list[PodRef], QueuedJob]]:
    """A gang of which each member requests one device, granted, and not bound: kube-scheduler stands still."""
    with before_binding(stage, "ring", SIZE, grace_s=1, **requesting()) as granted:
        yield granted


def reserved(stage: Stage) -> dict[str, str]:
    """The UID for which each ResourceClaim of the namespace is reserved, by the name of its Pod."""
    found = stage.site.kube.api("GET", f"{API}/namespaces/{stage.namespace}/resourceclaims")[1]["items"]
    return {
        resource_claim["metadata"]["ownerReferences"][0]["name"]: user["uid"]
        for resource_claim in found
        for user in resource_claim.get("status", {}).get("reservedFor", ())
    }


def late(stage: Stage, pods: Sequence[PodRef]) -> list[str]:
    """The members that kube-scheduler accepted while others were missing, by its Events."""
    return [pod.name for pod in pods if any("none is bound before all" in text for _, text in stage.site.events(pod))]


def assert_devices_of_slurm(stage: Stage, pods: Sequence[PodRef]) -> None:
    """Hold that each container has the device of its job on its node, and that its ResourceClaim is its own."""
    site = stage.site
    (job,) = stage.jobs()
    given = [f"gpu-{index}" for index in _INDEX.findall(" ".join(site.rest_job(job.job_id)["gres_detail"]))]
    assert sorted(given) == ["gpu-0"] * (SIZE - 1) + ["gpu-1"], "the native job has the first device of one node"
    assert nodes_of(stage, pods) == list(NAMES)

    def shown(pod: PodRef) -> list[str]:
        text = site.kube.kubectl("logs", "-n", pod.namespace, pod.name) if stage.phase(pod) == "Running" else ""
        return _DEVICE.findall(text)

    for pod, device in zip(pods, given, strict=True):
        found = site.wait_for(lambda one=pod: shown(one), f"Pod {pod.name} shows its device")  # type: ignore[misc]
        assert found == [device]
    assert reserved(stage) == {pod.name: pod.uid for pod in pods}


@pytest.mark.parametrize("requesting", [by_resource_claim, by_extended_resource])
def test_a_gang_of_which_two_members_voted_early_is_bound_with_the_devices_of_each(
    resource_claims: Stage, requesting: Requesting
) -> None:
    site = resource_claims.site
    with ExitStack() as unusable:
        with granted_gang(resource_claims, requesting) as (pods, job):
            unusable.enter_context(changed(site, dict.fromkeys(NAMES[2:], TAINT)))
        site.wait_for(lambda: late(resource_claims, pods) == [pod.name for pod in pods[:2]], "two members voted early")
        site.wait_for(
            lambda: not reserved(resource_claims), "kube-scheduler has undone their reservations", every_s=0.05
        )
        assert not any(nodes_of(resource_claims, pods))
    all_bound(resource_claims, pods)
    if requesting is by_resource_claim:
        assert resource_claims.made() == [job.job_id]
    assert_devices_of_slurm(resource_claims, pods)


def test_no_resource_claim_stays_reserved_for_a_gang_whose_barrier_broke(resource_claims: Stage) -> None:
    site = resource_claims.site
    with ExitStack() as unusable:
        with granted_gang(resource_claims, by_resource_claim) as (pods, job):
            unusable.enter_context(changed(site, dict.fromkeys(NAMES[-1:], TAINT)))
        site.wait_for(lambda: len(late(resource_claims, pods)) == SIZE - 1, "the others have voted")
        site.wait_for(
            lambda: job.job_id not in [one.job_id for one in resource_claims.jobs()],
            "the job is released",
            timeout_s=BIND_WITHIN_S + 30,
        )
        site.wait_for(lambda: not reserved(resource_claims), "no ResourceClaim is reserved")
        assert_none_bound(resource_claims, pods, 3)
        assert reserved(resource_claims) == {}
    all_bound(resource_claims, pods, timeout_s=120)
    assert_devices_of_slurm(resource_claims, pods)
