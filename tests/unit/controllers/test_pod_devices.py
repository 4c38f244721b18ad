"""Which devices of ResourceClaims count as held."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from extender.controllers.devices.pod_devices import PodDevices
from extender.domain.devices.views import DeviceRequest, ResourceClaimView
from extender.domain.events import MemberRef
from extender.domain.placeholder import Member, State
from extender.domain.ports import DeviceCache, PodCache
from extender.domain.states import PlaceholderJob
from extender.engine.placeholder_index import PlaceholderIndex
from tests.builders.device_views import DRIVER, GPUS, a_resource_claim, gpu
from tests.builders.placeholders import in_state
from tests.builders.pod_views import a_pod

JOB = 7
UID = "u1"
POD = replace(a_pod(), uid=UID)
CHOSEN_BY_KUBE_SCHEDULER = replace(a_resource_claim(held=[gpu(0)], reserved=[UID]), extended=True, owner=UID)
CHOSEN_BY_SLURM = replace(CHOSEN_BY_KUBE_SCHEDULER, job_id=JOB)


UNBOUND = Member(MemberRef(UID, POD.namespace, POD.name))


def is_provisional(resource_claim: ResourceClaimView, member: Member = UNBOUND) -> bool:
    """Judge a ResourceClaim of a Pod whose job has been granted."""
    placeholders = PlaceholderIndex()
    placeholders.put(replace(in_state(State.GRANTED, UID, PlaceholderJob(JOB)), members=(member,)))
    none = cast("DeviceCache", SimpleNamespace(resource_claim=lambda *_: None))
    pods = cast("PodCache", SimpleNamespace(get={UID: POD}.get))
    devices = PodDevices(
        GPUS,
        none,
        pods,
        placeholders,
        users_of_resource_claim=lambda *_: [POD],
        live_users_of_resource_claim=lambda *_: [POD],
        node_offers=lambda *_: False,
        scheduler=POD.scheduler_name,
    )
    return devices.is_provisional(resource_claim)


@pytest.mark.parametrize("resource_claim", [CHOSEN_BY_KUBE_SCHEDULER, CHOSEN_BY_SLURM])
def test_devices_of_a_pod_that_is_not_bound_are_not_held(resource_claim: ResourceClaimView) -> None:
    assert is_provisional(resource_claim)


def test_a_choice_of_kube_scheduler_is_not_held_while_bind_replaces_it() -> None:
    assert is_provisional(CHOSEN_BY_KUBE_SCHEDULER, replace(UNBOUND, binding=True))


def test_devices_of_slurm_are_held_from_the_binding_on() -> None:
    assert not is_provisional(CHOSEN_BY_SLURM, replace(UNBOUND, binding=True))


def test_devices_of_a_bound_pod_are_held_independent_of_who_chose_them() -> None:
    assert not is_provisional(CHOSEN_BY_SLURM, replace(UNBOUND, node="n1"))
    assert not is_provisional(CHOSEN_BY_KUBE_SCHEDULER, replace(UNBOUND, node="n1"))


def test_a_resource_claim_with_a_request_that_no_line_names_is_held() -> None:
    other = replace(CHOSEN_BY_KUBE_SCHEDULER, requests=(DeviceRequest("gpu", DRIVER), DeviceRequest("nic", "nic")))
    assert not is_provisional(other)
