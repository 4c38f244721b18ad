"""The ResourceClaims of a Pod become GRES where the map knows them; all else is left to kube-scheduler or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from extender.domain.devices.resource_claims import ResourceClaimReading, extended_requests, read_resource_claims
from extender.domain.devices.views import DeviceRequest, ResourceClaimView
from extender.domain.policy.site import TranslationPolicy
from extender.domain.translation.translate import Translated, TranslationRefused, translate
from extender.domain.views import PodResourceClaim, PodView, ResourceClaimGres
from tests.builders.device_views import DRIVER, GPUS, a_resource_claim, gpu
from tests.builders.pod_views import a_pod


def read(pod: PodView, *resource_claims: ResourceClaimView, others: Sequence[PodView] = ()) -> ResourceClaimReading:
    by_name = {(one.namespace, one.name): one for one in resource_claims}
    return read_resource_claims(pod, lambda namespace, name: by_name.get((namespace, name)), lambda *_: others, GPUS)


def with_resource_claims(*names: str) -> PodView:
    entries = tuple(PodResourceClaim(name, name) for name in names)
    return a_pod(namespace="default", resource_claims=entries)


def test_the_requests_of_all_resource_claims_are_added_up() -> None:
    two = a_resource_claim("a", DeviceRequest("x", DRIVER, 2))
    found = read(with_resource_claims("a", "b"), two, a_resource_claim("b"))
    assert found.gres == {"gpu": 3}
    assert [one.name for one in found.translated] == ["a", "b"]
    assert not found.faults


def test_nothing_is_decided_before_every_resource_claim_exists_and_each_that_lacks_is_named_with_what_to_do() -> None:
    (named,) = read(with_resource_claims("a", "b"), a_resource_claim("a")).missing
    assert (
        named == "ResourceClaim default/b, which Pod default/web names, does not exist. Create it, or delete the Pod."
    )
    (leaving,) = read(with_resource_claims("a"), replace(a_resource_claim("a"), deleted=True)).missing
    assert leaving.startswith("ResourceClaim default/a of Pod default/web is being deleted. Recreate it")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ("", "not created the ResourceClaim for t of Pod default/web yet. Check that ResourceClaimTemplate default/x"),
        ("p-t-1", "ResourceClaim default/p-t-1 of Pod default/web was deleted. Delete and recreate the Pod if"),
    ],
)
def test_a_resource_claim_that_comes_from_a_template_is_not_for_the_user_to_create(made: str, text: str) -> None:
    pod = replace(with_resource_claims(), resource_claims=(PodResourceClaim("t", made, template="x"),))
    (said,) = read(pod).missing
    assert text in said


def test_an_entry_that_needs_no_resource_claim_is_skipped() -> None:
    pod = replace(a_pod(), resource_claims=(PodResourceClaim("t", needless=True),))
    assert read(pod) == ResourceClaimReading()


def test_a_resource_claim_that_no_line_names_is_left_to_kube_scheduler() -> None:
    found = read(with_resource_claims("a"), a_resource_claim("a", DeviceRequest("nic", "nic.example.com")))
    assert found.gres == {}
    assert found.translated == ()
    assert "no line of devices names its DeviceClass (nic.example.com)" in found.delegated[0]


def test_a_prioritized_list_and_admin_access_are_left_to_kube_scheduler() -> None:
    for field in ("firstAvailable", "adminAccess"):
        found = read(with_resource_claims("a"), a_resource_claim("a", DeviceRequest("x", DRIVER, delegated=field)))
        assert found.gres == {}
        assert field in found.delegated[0]


def test_a_resource_claim_of_two_pods_is_left_to_kube_scheduler() -> None:
    found = read(with_resource_claims("a"), a_resource_claim("a"), others=[replace(a_pod(), uid="u2", name="second")])
    assert found.gres == {}
    assert "second uses it too" in found.delegated[0]


def test_a_resource_claim_that_kube_scheduler_allocated_for_another_object_is_left_to_it() -> None:
    found = read(with_resource_claims("a"), a_resource_claim("a", held=[gpu(0)], reserved=["somebody"]))
    assert "another object uses it" in found.delegated[0]


def test_a_resource_claim_that_cannot_be_read_is_refused_with_its_fault() -> None:
    found = read(
        with_resource_claims("a"), replace(a_resource_claim("a"), requests=(), unreadable="config is too long")
    )
    assert found.faults == ("ResourceClaim default/a cannot be read: config is too long; recreate it without that",)
    assert (found.translated, found.delegated, found.missing) == ((), (), ())


def test_the_pods_own_allocation_is_still_converted() -> None:
    pod = with_resource_claims("a")
    assert read(pod, a_resource_claim("a", held=[gpu(0)], reserved=[pod.uid])).gres == {"gpu": 1}
    assert read(pod, a_resource_claim("a", held=[gpu(0)], job_id=7)).gres == {"gpu": 1}


def test_what_slurm_cannot_honour_is_refused_with_its_place() -> None:
    found = read(
        with_resource_claims("a"),
        a_resource_claim("a", DeviceRequest("x", DRIVER, unsupported="selectors"), constrained=True),
    )
    assert ["request x has selectors" in found.faults[0], "has constraints" in found.faults[1]] == [True, True]


def test_a_resource_claim_of_which_the_map_knows_a_part_is_refused() -> None:
    found = read(
        with_resource_claims("a"),
        a_resource_claim("a", DeviceRequest("x", DRIVER), DeviceRequest("y", "nic.example.com")),
    )
    assert "put them in two ResourceClaims" in found.faults[0]


def test_more_devices_than_an_allocation_can_have_are_refused() -> None:
    found = read(with_resource_claims("a"), a_resource_claim("a", DeviceRequest("x", DRIVER, 1000)))
    assert "more than 32 devices" in found.faults[0]


def test_extended_resources_of_known_classes_are_requests() -> None:
    offered = {"example.com/gpu": DRIVER}
    requested = {"example.com/gpu": "2", "rdma/ib": "1", f"deviceclass.resource.kubernetes.io/{DRIVER}": "1"}
    found = extended_requests(a_pod(more=requested), lambda name: offered.get(name, ""), GPUS)
    assert sorted((one.device_class, one.count) for one in found) == [(DRIVER, 1), (DRIVER, 2)]


def test_the_job_gets_the_gres_of_resource_claims_and_of_resources_together() -> None:
    pod = replace(
        a_pod(more={"nvidia.com/gpu": "1"}),
        resource_claim_gres=ResourceClaimGres({"gpu": 2}, delegated=("ResourceClaim c: x",)),
    )
    found = translate([pod], {}, TranslationPolicy(), 0.0)
    assert isinstance(found, Translated)
    assert found.request.gres == {"gpu": 3}
    assert any("ResourceClaim c: x; kube-scheduler allocates it" in one.text for one in found.notices)


def test_faults_of_resource_claims_refuse_the_pod() -> None:
    found = translate(
        [replace(a_pod(), resource_claim_gres=ResourceClaimGres(faults=("no",)))], {}, TranslationPolicy(), 0.0
    )
    assert found == TranslationRefused(("no",))
