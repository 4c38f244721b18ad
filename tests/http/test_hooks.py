"""Hooks: tokens are passed on, waits are bounded, and every answer is JSON with a status that a script can use."""

from __future__ import annotations

import asyncio
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.http.app import application
from extender.http.hooks import bearer, router
from extender.http.service import HookAnswer
from extender.observability.metrics.registry import Metrics
from tests.builders.services import FakeHooks, FakeServices, StillClock, client

LONGEST = 8.0


async def post(
    hooks: FakeHooks, path: str, token: str | None = "t0k", metrics: Metrics | None = None
) -> httpx.Response:
    app = application([router(FakeServices(hooks=hooks), metrics or Metrics(StillClock()), LONGEST)])
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with client(app) as http:
        return await http.post(path, headers=headers)


async def test_a_start_is_passed_on_with_its_token() -> None:
    hooks = FakeHooks(HookAnswer(202, {"job": 7}))
    reply = await post(hooks, "/hooks/jobs/7/started")
    assert (reply.status_code, reply.json()) == (202, {"job": 7})
    assert hooks.calls == [("started", 7, "t0k")]


async def test_a_start_without_a_token_is_still_a_hint() -> None:
    hooks = FakeHooks(HookAnswer(202))
    assert (await post(hooks, "/hooks/jobs/7/started", token=None)).status_code == 202
    assert hooks.calls == [("started", 7, "")]


@pytest.mark.parametrize(("query", "waits"), [("", 0.0), ("?wait=3", 3.0), ("?wait=2.5", 2.5), ("?wait=600", LONGEST)])
async def test_a_teardown_waits_no_longer_than_requested_and_allowed(query: str, waits: float) -> None:
    hooks = FakeHooks()
    reply = await post(hooks, f"/hooks/jobs/7/teardown{query}")
    assert reply.status_code == 200
    assert hooks.calls == [("teardown", 7, "t0k", waits)]


@pytest.mark.looptime
async def test_an_answer_that_takes_too_long_is_cut_off() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    reply = await post(FakeHooks(takes=3600), "/hooks/jobs/7/teardown?wait=5")
    assert reply.status_code == 503
    assert loop.time() - began == pytest.approx(6)


async def test_a_drain_is_passed_on_with_its_reason() -> None:
    hooks = FakeHooks(HookAnswer(202))
    await post(hooks, "/hooks/nodes/gpu-1.rack/drain?reason=Pod%20outlives%20its%20job")
    assert hooks.calls == [("drain", "gpu-1.rack", "t0k", "Pod outlives its job")]


@pytest.mark.parametrize(
    ("query", "waits", "jobs", "limit"),
    [
        ("", 0.0, (), 0),
        ("?wait=3&jobs=12", 3.0, (12,), 0),
        ("?wait=600&jobs=12,0013,4294967295&limit=65534", LONGEST, (12, 13, 2**32 - 1), 65534),
    ],
)
async def test_a_clearance_is_passed_on_with_the_jobs_of_the_notes(
    query: str, waits: float, jobs: tuple[int, ...], limit: int
) -> None:
    hooks = FakeHooks(HookAnswer(202, {"clear": False}))
    reply = await post(hooks, f"/hooks/nodes/gpu-1.rack/clear{query}")
    assert (reply.status_code, reply.json()) == (202, {"clear": False})
    assert hooks.calls == [("clear", "gpu-1.rack", "t0k", waits, jobs, limit)]


async def test_an_answer_without_content_has_none() -> None:
    reply = await post(FakeHooks(HookAnswer(204, {"clear": True})), "/hooks/nodes/n1/clear")
    assert (reply.status_code, reply.content) == (204, b"")
    assert "content-length" not in reply.headers


async def test_a_caller_without_a_token_is_challenged_for_one() -> None:
    reply = await post(
        FakeHooks(HookAnswer(403, {"error": "the token is not this job's"})), "/hooks/jobs/7/teardown", token=None
    )
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    assert "a token is needed" in reply.json()["error"]


@pytest.mark.parametrize("status", [200, 202, 403, 404])
async def test_the_service_decides_the_status(status: int) -> None:
    metrics = Metrics(StillClock())
    reply = await post(FakeHooks(HookAnswer(status, {"a": 1})), "/hooks/jobs/7/teardown", metrics=metrics)
    assert (reply.status_code, reply.json()) == (status, {"a": 1})
    assert f'slurm_extender_hook_requests_total{{code="{status}",hook="teardown"}} 1.0' in metrics.render().decode()


@pytest.mark.parametrize(
    "path",
    [
        "/hooks/jobs/x/started",
        "/hooks/jobs/0/started",
        "/hooks/jobs/-1/teardown",
        "/hooks/jobs/99999999999/started",
        "/hooks/jobs/7/teardown?wait=soon",
        "/hooks/jobs/7/teardown?wait=-1",
        "/hooks/jobs/7/teardown?wait=nan",
        "/hooks/jobs/7/teardown?wait=inf",
        "/hooks/nodes/a%20b/drain",
        "/hooks/nodes/-a/drain",
        "/hooks/nodes/n1/drain?reason=" + "x" * 201,
        "/hooks/nodes/-a/clear",
        "/hooks/nodes/n1/clear?wait=nan",
        "/hooks/nodes/n1/clear?wait=-1",
        "/hooks/nodes/n1/clear?limit=-1",
        "/hooks/nodes/n1/clear?limit=none",
        "/hooks/nodes/n1/clear?jobs=x",
        "/hooks/nodes/n1/clear?jobs=1,",
        "/hooks/nodes/n1/clear?jobs=-1",
        "/hooks/nodes/n1/clear?jobs=1;2",
        "/hooks/nodes/n1/clear?jobs=%D9%A1",
        "/hooks/nodes/n1/clear?jobs=99999999999",
        "/hooks/nodes/n1/clear?jobs=" + ",".join("1" * 10 for _ in range(900)),
    ],
)
async def test_malformed_requests_are_refused_and_not_passed_on(path: str) -> None:
    hooks = FakeHooks()
    reply = await post(hooks, path)
    assert reply.status_code == 400
    assert reply.json()["error"].startswith("malformed request: ")
    assert hooks.calls == []


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc ", "abc"),
        ("", ""),
        ("abc", ""),
        ("Basic abc", ""),
        ("Bearer", ""),
        ("Bearer ", ""),
    ],
)
def test_the_token_of_a_header(header: str, token: str) -> None:
    assert bearer(header) == token


@pytest.mark.parametrize("body", [b"", b"{", b"\x00\xff" * 1000, b'{"job": 8, "token": "other"}'])
@pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/form-data"])
async def test_a_body_changes_nothing(body: bytes, kind: str) -> None:
    hooks = FakeHooks(HookAnswer(202, {"job": 7}))
    app = application([router(FakeServices(hooks=hooks), Metrics(StillClock()), LONGEST)])
    async with client(app) as http:
        headers = {"Authorization": "Bearer t0k", "Content-Type": kind}
        reply = await http.post("/hooks/jobs/7/started", content=body, headers=headers)
    assert reply.status_code == 202
    assert hooks.calls == [("started", 7, "t0k")]


async def test_a_release_of_a_node_by_an_administrator_is_passed_on_with_the_key() -> None:
    hooks = FakeHooks(HookAnswer(200, {"pods": ["team/train"]}))
    reply = await post(hooks, "/hooks/nodes/gpu-1.rack/empty")
    assert (reply.status_code, reply.json()) == (200, {"pods": ["team/train"]})
    assert hooks.calls == [("empty", "gpu-1.rack", "t0k")]


@given(query=st.dictionaries(st.sampled_from(["wait", "jobs", "limit", ""]), st.text(max_size=40), max_size=4))
@settings(max_examples=100, deadline=None)
async def test_whatever_a_clearance_is_requested_with_is_understood_or_refused(query: dict[str, str]) -> None:
    hooks = FakeHooks(HookAnswer(202))
    reply = await post(hooks, f"/hooks/nodes/n1/clear?{urlencode(query)}")
    assert (reply.status_code, len(hooks.calls)) in {(202, 1), (400, 0)}
    for _, _, _, waits, jobs, _ in hooks.calls:
        assert 0 <= waits <= LONGEST
        assert all(0 <= job < 10**10 for job in jobs)


@pytest.mark.parametrize("word", ["lock", "unlock"])
async def test_a_lock_is_passed_on_with_its_job(word: str) -> None:
    hooks = FakeHooks(HookAnswer(200, {"locked": True}))
    reply = await post(hooks, f"/hooks/nodes/gpu-1.rack/{word}?job=7")
    assert (reply.status_code, reply.json()) == (200, {"locked": True})
    assert hooks.calls == [(word, "gpu-1.rack", "t0k", 7)]


@pytest.mark.parametrize("query", ["", "?job=", "?job=0", "?job=-1", "?job=4294967296", "?job=x"])
@pytest.mark.parametrize("word", ["lock", "unlock"])
async def test_a_lock_without_a_job_is_refused(word: str, query: str) -> None:
    hooks = FakeHooks()
    assert (await post(hooks, f"/hooks/nodes/n1/{word}{query}")).status_code == 400
    assert not hooks.calls
