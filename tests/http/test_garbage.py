"""Whatever arrives at kube-scheduler's routes, the answer is 200 with an `Error` that it can log."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.domain.verdict import Pass
from extender.http.app import application
from extender.http.scheduling import router
from extender.observability.metrics.registry import Metrics
from tests.builders.services import FakeScheduling, FakeServices, StillClock, args, client

ROUTES = ["/scheduler/filter", "/scheduler/bind"]
MAX_BODY = 4096


def app(service: FakeScheduling | None = None) -> FastAPI:
    clock = StillClock()
    return application([router(FakeServices(service or FakeScheduling()), Metrics(clock), clock, MAX_BODY)])


async def error_of(route: str, content: bytes, content_type: str = "application/json") -> str:
    service = FakeScheduling()
    async with client(app(service)) as http:
        reply = await http.post(route, content=content, headers={"Content-Type": content_type})
    assert reply.status_code == 200, reply.text
    error = reply.json()["Error"]
    assert isinstance(error, str)
    assert service.binds == []
    return error


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"5",
        b'"text"',
        b"{",
        b"\xff\xfe",
        b'{"Pod": 5}',
        b'{"Pod": {"metadata": {"name": []}}, "NodeNames": ["n"]}',
        b'{"Pod": {}, "NodeNames": ["n"]}',
        b'{"Pod": {"metadata": {"uid": "u", "name": "p", "namespace": "n"}}, "NodeNames": [5]}',
        b'{"Pod": {"metadata": {"uid": "u", "name": "p", "namespace": "n"}}, "Nodes": {"items": [{}]}}',
        b"[" * 3000,
        b'{"a":' * 600 + b"1" + b"}" * 600,
        b'{"NodeNames": [' + b"1" * 3000 + b"]}",
        b"x" * (MAX_BODY + 1),
    ],
    ids=lambda content: repr(content[:24]),
)
async def test_garbage_is_answered_with_an_error(route: str, content: bytes) -> None:
    assert (await error_of(route, content)).startswith("malformed request: ")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data"])
async def test_other_content_types_are_answered_with_an_error(content_type: str) -> None:
    assert (await error_of("/scheduler/filter", json.dumps(args("n")).encode(), content_type)).startswith("malformed")


async def test_a_content_type_may_have_parameters() -> None:
    assert await error_of("/scheduler/filter", json.dumps(args("n")).encode(), "Application/JSON; charset=utf-8") == ""


async def test_the_error_names_the_field_and_not_the_value() -> None:
    error = await error_of("/scheduler/filter", b'{"Pod": {"metadata": {"name": {"hush": 1}}}, "NodeNames": ["n"]}')
    assert "body.Pod: Value error, not a Pod: metadata.name: it must be text" in error
    assert "hush" not in error


async def test_an_error_of_many_fields_is_short() -> None:
    body = {"Pod": args()["Pod"], "NodeNames": list(range(500))}
    error = await error_of("/scheduler/filter", json.dumps(body).encode())
    assert "and 497 more" in error
    assert len(error) < 400


async def test_a_body_above_the_limit_is_refused_for_its_size_however_well_it_is_formed() -> None:
    body = json.dumps(args(*(f"node-{number}" for number in range(1000)))).encode()
    assert len(body) > MAX_BODY
    assert f"more than {MAX_BODY} bytes" in await error_of("/scheduler/filter", body)


async def test_a_field_whose_name_utf8_cannot_hold_is_answered() -> None:
    body = args("n")
    body["Pod"]["metadata"]["annotations"] = {"\ud800": []}
    assert (await error_of("/scheduler/filter", json.dumps(body).encode())).startswith("malformed request: ")


async def test_names_that_utf8_cannot_hold_are_answered() -> None:
    service = FakeScheduling(Pass(["\ud800"]))
    body = json.dumps(args("\ud800")).encode()
    async with client(app(service)) as http:
        reply = await http.post("/scheduler/filter", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 200
    assert reply.json()["Error"]


# Few characters, those that parsers stumble over: the tables behind all of Unicode take seconds to build.
TEXT = st.text(alphabet='aN0/."\\{\x00\n\x7f\xe9\ud800\U0001f419', max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "Pod": st.fixed_dictionaries({}, optional={"metadata": JSON, "spec": JSON, "status": JSON}) | JSON,
        "Nodes": st.fixed_dictionaries({}, optional={"items": st.lists(JSON, max_size=2) | JSON}) | JSON,
        "NodeNames": st.lists(TEXT | JSON, max_size=3) | JSON,
        "PodName": JSON,
        "PodNamespace": JSON,
        "PodUID": JSON,
        "Node": JSON,
    },
)


@pytest.mark.parametrize("route", ROUTES)
@settings(deadline=None)
@given(body=NEARLY.map(json.dumps).map(str.encode) | st.binary(max_size=64))
async def test_no_body_breaks_a_route(route: str, body: bytes) -> None:
    async with client(app()) as http:
        reply = await http.post(route, content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 200
    answer: dict[str, Any] = reply.json()
    assert isinstance(answer["Error"], str)
