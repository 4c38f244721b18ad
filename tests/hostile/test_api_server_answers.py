"""Whatever an API server writes into an answer ends in the module's own error, or names the malformed object."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from extender.domain.gangs.context import ControllerView
from extender.domain.views import OwnerReference
from extender.kube.connection import ApiResponse
from extender.kube.errors import ApiUnavailable
from extender.kube.lease import _kept
from extender.kube.wire import stream
from extender.kube.wire.controllers import _READERS, with_size
from extender.kube.wire.fields import MalformedObject, Unreadable
from extender.kube.wire.meta import read_object_meta
from extender.kube.wire.stream import (
    DEVICE_CLASS,
    LONGEST_PAUSE_S,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUPS,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    ResourceKind,
    pause_of,
    read_refusal,
)
from tests.builders import kube_samples
from tests.builders.hostile_server import memory_at_most
from tests.builders.hostile_values import (
    BODIES,
    VALUES,
    numbers_of,
    with_each_field_replaced,
    with_each_key_twice,
)

KINDS: dict[str, tuple[ResourceKind[Any], dict[str, Any]]] = {
    "pods": (POD, kube_samples.POD),
    "nodes": (NODE, kube_samples.NODE),
    "namespaces": (NAMESPACE, kube_samples.NAMESPACE),
    "device classes": (DEVICE_CLASS, kube_samples.DEVICE_CLASS),
    "ResourceClaims": (RESOURCE_CLAIM, kube_samples.RESOURCE_CLAIM),
    "ResourceSlices": (RESOURCE_SLICE, kube_samples.RESOURCE_SLICE),
    **{f"PodGroups of {api}": (kind, kube_samples.POD_GROUPS[api]) for api, kind in POD_GROUPS.items()},
}
OWN = (Unreadable, MalformedObject, ApiUnavailable)


def page(kind: str) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "1", "continue": "x"}, "items": [KINDS[kind][1]]}


def escaping(cases: Iterator[tuple[object, Callable[[], object]]]) -> list[str]:
    """What is raised that is not the module's own, and numbers that Kubernetes cannot have meant."""
    found = []
    for case, act in cases:
        try:
            result = act()
        except OWN:
            continue
        except Exception as error:
            found.append(f"{case}: {type(error).__name__}: {str(error)[:100]}")
            continue
        if not all(-(2**63) <= number < 2**63 for number in numbers_of(result)):
            found.append(f"{case}: a number of more than 64 bits")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_with_every_field_is_read(kind: str) -> None:
    read = KINDS[kind][0].page(json.dumps(page(kind)).encode())
    assert (len(read.views), read.unreadable) == (1, ())


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_of_another_type_in_a_list_is_an_odd_object_or_an_unreadable_answer(kind: str) -> None:
    cases = (
        ((path, value), lambda body=body: KINDS[kind][0].page(body))
        for path, value, body in with_each_field_replaced(page(kind))
    )
    assert escaping(cases) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_of_another_type_in_a_watch_is_an_odd_object_or_an_unreadable_line(kind: str) -> None:
    change = {"type": "MODIFIED", "object": KINDS[kind][1]}
    cases = (
        ((path, value), lambda body=body: KINDS[kind][0].change(body))
        for path, value, body in with_each_field_replaced(change)
    )
    assert escaping(cases) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_stands_twice_is_read_or_makes_the_object_malformed(kind: str) -> None:
    cases = ((path, lambda body=body: KINDS[kind][0].page(body)) for path, body in with_each_key_twice(page(kind)))
    assert escaping(cases) == []


@pytest.mark.parametrize("of", ["BOOKMARK", "ERROR", "DELETED", "x" * 1000, ""])
def test_a_line_of_any_type_is_read_or_unreadable(of: str) -> None:
    for found in (kube_samples.POD, kube_samples.STATUS):
        cases = (
            ((path, value), lambda body=body: POD.change(body))
            for path, value, body in with_each_field_replaced({"type": of, "object": found})
            if len(path) <= 2
        )
        assert escaping(cases) == []


def test_a_refusal_is_read_whatever_its_body_says() -> None:
    status = kube_samples.STATUS
    cases = (
        ((path, value), lambda body=body: read_refusal(body, 500))
        for path, value, body in with_each_field_replaced(status)
    )
    assert escaping(cases) == []


def test_a_sample_is_there_of_every_kind_that_is_read() -> None:
    found = {id(one) for one in vars(stream).values() if isinstance(one, ResourceKind)}
    assert found | {id(one) for one in POD_GROUPS.values()} == {id(kind) for kind, _ in KINDS.values()}
    assert {(version.rpartition("/")[0], kind) for version, kind in kube_samples.CONTROLLERS} == set(_READERS)


@pytest.mark.parametrize("version_and_kind", kube_samples.CONTROLLERS, ids=lambda pair: pair[1])
def test_a_controller_of_pods_is_read_or_odd(version_and_kind: tuple[str, str]) -> None:
    controller = kube_samples.CONTROLLERS[version_and_kind]
    seen = ControllerView(OwnerReference(*version_and_kind, "1", "1"))
    assert with_size(seen, json.dumps(controller).encode()) != seen or "LeaderWorkerSet" in version_and_kind
    replaced = (
        ((path, value), lambda body=body: with_size(seen, body))
        for path, value, body in with_each_field_replaced(controller)
    )
    twice = ((path, lambda body=body: with_size(seen, body)) for path, body in with_each_key_twice(controller))
    assert escaping(itertools.chain(replaced, twice)) == []
    for body in BODIES.values():
        with memory_at_most(100 * 2**20), pytest.raises(OWN):
            with_size(seen, body)


def test_metadata_is_read_or_malformed() -> None:
    cases = (
        ((path, value), lambda body=body: read_object_meta(body))
        for path, value, body in with_each_field_replaced({"metadata": kube_samples.METADATA})
    )
    assert escaping(cases) == []


@pytest.mark.parametrize("body", BODIES)
def test_a_body_that_is_no_answer_is_unreadable_and_costs_no_more_than_its_size(body: str) -> None:
    data = BODIES[body]
    for kind, _ in KINDS.values():
        for read in (kind.page, kind.change):
            with memory_at_most(100 * 2**20), pytest.raises(OWN):
                read(data)
    with pytest.raises(OWN):
        read_object_meta(data)
    assert len(read_refusal(data, 500).message) <= 200


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (7, 7.0), ("7", 7.0), (1.5, 1.5), (0, 0.0), (-1, 0.0), (True, 0.0), (math.nan, 0.0),
        (math.inf, LONGEST_PAUSE_S), (10**400, LONGEST_PAUSE_S), ("9" * 10, LONGEST_PAUSE_S), ("9" * 5000, 0.0),
        ("\u00b2", 0.0), ("soon", 0.0), (None, 0.0), ([], 0.0),
    ],
)  # fmt: skip
def test_a_pause_that_an_api_server_requests_is_bounded(said: object, seconds: float) -> None:
    assert pause_of(said) == seconds


LEASE = {
    "metadata": {"name": "l", "resourceVersion": "1", "annotations": {}},
    "spec": {
        "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 1, "acquireTime": "x", "renewTime": "x",
    },
}  # fmt: skip


def test_a_lease_is_read_or_unavailable() -> None:
    cases = (
        ((path, value), lambda body=body: _kept(ApiResponse(200, {}, body)).record.holder)
        for path, value, body in with_each_field_replaced(LEASE)
    )
    assert escaping(cases) == []


@pytest.mark.parametrize("value", VALUES)
def test_items_that_are_no_list_are_unreadable_or_none(value: str) -> None:
    cases = iter([(value, lambda: POD.page(b'{"metadata": {}, "items": ' + VALUES[value] + b"}"))])
    assert escaping(cases) == []
