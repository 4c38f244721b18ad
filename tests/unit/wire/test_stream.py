"""Pages of lists and lines of watches, with one malformed object among good ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender.kube.wire.fields import Unreadable
from extender.kube.wire.meta import Identity
from extender.kube.wire.stream import NODE, POD, Refusal, read_refusal


def a_pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"uid": f"uid-{name}", "namespace": "ns", "name": name, "resourceVersion": "5"}, "spec": spec}


def a_page(*items: Any, token: str = "") -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "9", "continue": token}, "items": list(items)}).encode()


def a_line(word: str, obj: Any) -> bytes:
    return json.dumps({"type": word, "object": obj}).encode()


def test_a_page_has_its_version_and_where_to_continue() -> None:
    page = POD.page(a_page(a_pod("a"), a_pod("b"), token="next"))
    assert [view.name for view in page.views] == ["a", "b"]
    assert (page.resource_version, page.continue_token, page.unreadable) == ("9", "next", ())


def test_a_page_without_items_is_empty() -> None:
    assert POD.page(b'{"metadata":{"resourceVersion":"9"},"items":null}').views == ()


def test_one_odd_object_does_not_fail_its_page() -> None:
    page = POD.page(a_page(a_pod("a"), a_pod("odd", containers=7), a_pod("b")))
    assert [view.name for view in page.views] == ["a", "b"]
    assert page.unreadable[0].identity == Identity("uid-odd", "ns", "odd", "5")
    assert "spec.containers" in page.unreadable[0].text


def test_an_object_without_a_readable_identity_is_still_reported() -> None:
    page = POD.page(a_page(a_pod("a"), {"metadata": 3}))
    assert page.unreadable[0].identity == Identity()


@pytest.mark.parametrize("data", [b"", b"[]", b'{"items": 3}', b'{"items": [3]}', b'{"items": [{"metadata": {'])
def test_what_is_no_list_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable, match="not a list"):
        POD.page(data)


def test_a_change_has_the_object_and_its_version() -> None:
    change = POD.change(a_line("MODIFIED", a_pod("a", nodeName="n")))
    assert change.view is not None
    assert (change.type, change.resource_version, change.view.node_name) == ("MODIFIED", "5", "n")


def test_a_node_change_reads_as_a_node() -> None:
    change = NODE.change(a_line("ADDED", {"metadata": {"name": "n", "uid": "u"}, "spec": {"unschedulable": True}}))
    assert change.view is not None
    assert change.view.unschedulable


def test_a_bookmark_has_a_version_and_no_object() -> None:
    bookmark = {"metadata": {"resourceVersion": "77", "creationTimestamp": None}, "spec": {"containers": None}}
    change = POD.change(a_line("BOOKMARK", bookmark))
    assert (change.type, change.resource_version, change.view) == ("BOOKMARK", "77", None)


def test_an_error_has_its_status() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (5)"}
    assert POD.change(a_line("ERROR", status)).refusal == Refusal(410, "Expired", "too old resource version: 1 (5)")


def test_an_odd_object_of_a_change_is_named_and_moves_the_version_on() -> None:
    change = POD.change(a_line("MODIFIED", a_pod("odd", containers=7)))
    assert change.view is None
    assert change.unreadable is not None
    assert (change.unreadable.identity.uid, change.resource_version) == ("uid-odd", "5")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b'{"type":"ADDED","obj',
        b'{"type":"ADDED"}',
        b'{"object":{}}',
        b'{"type":"ADDED","object":[]}',
        b'{"type":"ADDED","object":{"metadata":{"name":"p"},"spec":{"containers":7}}}',
        b'{"type":"ADDED","object":{"metadata":[]}}',
        b'{"type":"ERROR","object":{"code":"many"}}',
    ],
)
def test_what_is_no_change_is_unreadable(line: bytes) -> None:
    with pytest.raises(Unreadable):
        POD.change(line)


def test_a_kind_of_change_that_does_not_exist_yet_passes_through() -> None:
    assert POD.change(a_line("SOMETHING", a_pod("a"))).type == "SOMETHING"


def test_a_refusal_is_read_from_a_status_or_from_plain_text() -> None:
    status = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 7}}
    assert read_refusal(json.dumps(status).encode(), 429) == Refusal(429, "TooManyRequests", "", 7.0)
    assert read_refusal(b"404 page not found\n", 404) == Refusal(404, "", "404 page not found")
