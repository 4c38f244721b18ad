"""Raw fields that the parser rejects, and the API server does not, hide no other object and no device."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_core import from_json

from extender.domain.devices.views import DeviceId
from extender.kube.wire.fields import Unreadable
from extender.kube.wire.json_text import DEEPEST, TOO_DEEP, parse_json
from extender.kube.wire.stream import RESOURCE_CLAIM

RAW = "@@raw@@"
DEVICE = DeviceId("gpu.example.com", "n1", "gpu-0")
ODD = {
    "deep objects": b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
    "deep lists": b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "brackets in a deep string": b'{"a":' * 300 + b'"]}[{\\"]"' + b"}" * 300,
    "half a pair": b'{"a": "\\\\\\ud800"}',
    "the other half": b'{"\\udfff": "\\ud83d\\ude00"}',
    "bytes that are no UTF-8": b'{"a": "\xff\xed\xa0\x80"}',
    "all of it": b'{"\\ud800\xff":' * 300 + b"1" + b"}" * 300,
}


def a_resource_claim(name: str) -> dict[str, Any]:
    result = {"request": "gpu", "driver": DEVICE.driver, "pool": DEVICE.pool, "device": DEVICE.device}
    config = [{"requests": ["gpu"], "opaque": {"driver": DEVICE.driver, "parameters": RAW}}]
    return {
        "metadata": {"uid": f"uid-{name}", "namespace": "ns", "name": name, "resourceVersion": "5"},
        "spec": {"devices": {"requests": [{"name": "gpu"}], "config": config}},
        "status": {"allocation": {"devices": {"results": [result], "config": config}}},
    }


def with_raw(value: object, raw: bytes) -> bytes:
    return json.dumps(value).encode().replace(f'"{RAW}"'.encode(), raw)


@pytest.mark.parametrize("raw", ODD.values(), ids=ODD)
def test_a_raw_field_hides_neither_the_devices_of_its_object_nor_the_rest_of_a_list(raw: bytes) -> None:
    with pytest.raises(ValueError, match="at line"):
        from_json(with_raw(a_resource_claim("odd"), raw))
    found = RESOURCE_CLAIM.page(
        with_raw({"metadata": {"resourceVersion": "9"}, "items": [a_resource_claim("odd"), a_resource_claim("b")]}, raw)
    )
    assert ([view.name for view in found.views], found.unreadable) == (["odd", "b"], ())
    assert found.resource_version == "9"
    change = RESOURCE_CLAIM.change(with_raw({"type": "ADDED", "object": a_resource_claim("odd")}, raw))
    assert change.view is not None
    for view in (*found.views, change.view):
        assert view.devices == {DEVICE}
        assert bool(view.unreadable) is (raw.count(b"[") + raw.count(b"{") > DEEPEST), view.unreadable


def test_a_value_that_is_nested_too_deeply_is_replaced_alone() -> None:
    deep = b"[" * DEEPEST + b"1, 2" + b"]" * DEEPEST
    value = parse_json(b'{"metadata": {"a": ' + deep + b', "b": "]"}, "c": [{}]}')
    assert value["c"] == [{}]
    assert value["metadata"]["b"] == "]"
    inner = value["metadata"]["a"]
    while isinstance(inner, list) and inner:
        inner = inner[0]
    assert inner == TOO_DEEP


def test_halves_of_pairs_become_what_go_reads() -> None:
    value = parse_json(b'{"metadata": {"\\ud800": "\\\\ud800 \\ud83d\\ude00 \\udc00\xff"}}')
    assert value == {"metadata": {"\ufffd": "\\ud800 \U0001f600 \ufffd\ufffd"}}


@pytest.mark.parametrize(
    "data",
    [b"", b"[" * 1_000, b"]" * 1_000, b'{"a":' * 300 + b"1" + b"}" * 300, b'{"metadata": "\\', b'{"metadata": {"a'],
)
def test_what_is_no_object_of_kubernetes_stays_unreadable(data: bytes) -> None:
    with pytest.raises(ValueError, match="at line"):
        parse_json(data)
    with pytest.raises(Unreadable):
        RESOURCE_CLAIM.page(data)
