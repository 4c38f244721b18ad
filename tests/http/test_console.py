"""The console: what its answers allow a browser, whom it answers, and how often."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from fastapi import FastAPI

from extender.config.load import parse
from extender.http.app import Services, endpoints
from extender.http.console import BURST, page
from extender.observability.metrics.registry import Metrics
from tests.builders.services import FakeDebug, FakeServices, StillClock, client

HEAD = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: hush}\n"
READS = ("console", "console/state", "console/pods/u1", "openapi.json")


def debug_port(body: str = "", *, debug: FakeDebug | None = None, clock: StillClock | None = None) -> FastAPI:
    clock = clock or StillClock()
    services = Services(FakeServices(debug=debug or FakeDebug()), Metrics(clock), clock)
    found = endpoints(parse(HEAD + body, "c.yaml"), services)
    return next(one.app for one in found if "observability.debugBind" in one.names)


async def test_the_page_may_run_its_own_style_and_script_and_nothing_else() -> None:
    async with client(debug_port()) as http:
        reply = await http.get("/debug/console")
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(one.strip().split(" ", 1) for one in reply.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"
    for element in ("style", "script"):
        (text,) = re.findall(f"<{element}>(.*?)</{element}>", reply.text, re.DOTALL)
        expected = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[f"{element}-src"] == f"'sha256-{expected}'"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in reply.headers


def test_the_page_needs_nothing_from_other_sites_and_parses_no_html() -> None:
    text = page()
    assert re.findall(r"https?://|//[a-z0-9.-]+\.[a-z]{2,}/|@import|url\(", text) == []
    parsers = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|eval\("
    assert re.findall(parsers, text) == []
    assert re.findall(r"\son[a-z]+=|style=", text) == []


@pytest.mark.parametrize("path", READS)
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8083", "127.0.0.1:8083", "127.9.9.9", "[::1]:8083"])
async def test_the_loopback_interface_is_answered_under_its_names(path: str, host: str) -> None:
    async with client(debug_port()) as http:
        assert (await http.get(f"/debug/{path}", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("path", [*READS, "placeholders", "nodes", "config"])
@pytest.mark.parametrize(
    "host",
    ["evil.example:8083", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.7", "[::2]", "", "x" * 999],
)
async def test_a_name_that_was_pointed_at_the_loopback_interface_is_refused(path: str, host: str) -> None:
    async with client(debug_port()) as http:
        reply = await http.get(f"/debug/{path}", headers={"Host": host})
    assert reply.status_code == 403
    assert "Host header" in reply.json()["error"]


async def test_on_other_interfaces_programs_are_answered_and_the_console_is_not() -> None:
    async with client(debug_port("observability: {debugBind: ':8083'}")) as http:
        named = {"Host": "10.0.0.7:8083"}
        assert (await http.get("/debug/placeholders", headers=named)).status_code == 200
        for path in READS:
            assert (await http.get(f"/debug/{path}", headers=named)).status_code == 403
            assert (await http.get(f"/debug/{path}")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
    ],
)
@pytest.mark.parametrize("path", [*READS, "placeholders"])
async def test_pages_of_other_sites_are_refused(headers: dict[str, str], path: str) -> None:
    async with client(debug_port()) as http:
        reply = await http.get(f"/debug/{path}", headers=headers)
        own = await http.get(f"/debug/{path}", headers={"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"})
    assert reply.status_code == 403
    assert own.status_code == 200
    assert not [name for name in (*reply.headers, *own.headers) if name.startswith("access-control")]


@pytest.mark.parametrize("header", ["Origin", "Sec-Fetch-Site"])
async def test_no_browser_changes_the_level_of_the_log(header: str) -> None:
    same = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    async with client(debug_port()) as http:
        before = (await http.get("/debug/log-level")).json()
        reply = await http.put("/debug/log-level?level=error", headers={header: same[header]})
        assert reply.status_code == 403
        assert (await http.get("/debug/log-level")).json() == before
        assert (await http.put("/debug/log-level?level=error", headers={"Host": "evil.example"})).status_code == 403


async def test_the_console_only_reads() -> None:
    async with client(debug_port()) as http:
        for path in READS:
            for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
                assert (await http.request(method, f"/debug/{path}")).status_code == 405


async def test_a_namespaced_installation_has_a_console_only_where_its_pods_are_filtered() -> None:
    for body, status in (
        ("scope: {namespaces: [a]}\n", 404),
        ("scope: {namespaces: [a]}\nobservability: {console: {namespaces: [a]}}\n", 200),
        ("observability: {console: {enabled: false}}\n", 404),
        ("", 200),
    ):
        async with client(debug_port(body)) as http:
            for path in ("console", "console/state", "console/pods/u1"):
                assert (await http.get(f"/debug/{path}")).status_code == status, body


async def test_answers_come_with_the_checks_and_are_made_once_a_second() -> None:
    debug, clock = FakeDebug(), StillClock()
    async with client(debug_port(debug=debug, clock=clock)) as http:
        for _ in range(30):
            reply = await http.get("/debug/console/state?search=web")
            assert reply.status_code == 200
        assert debug.searches == ["web"]
        assert reply.json()["checks"][1]["text"] == "no poll for 70 s"
        clock.time += 1.0
        await http.get("/debug/console/state?search=web")
        assert debug.searches == ["web", "web"]


async def test_more_searches_than_the_rate_have_to_wait() -> None:
    debug, clock = FakeDebug(), StillClock()
    async with client(debug_port(debug=debug, clock=clock)) as http:
        for number in range(BURST):
            assert (await http.get(f"/debug/console/state?search={number}")).status_code == 200
        refused = await http.get("/debug/console/state?search=more")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        clock.time += 1.0
        assert (await http.get("/debug/console/state?search=more")).status_code == 200
    assert len(debug.searches) == BURST + 1


async def test_searches_are_bounded_and_unknown_pods_are_said() -> None:
    async with client(debug_port()) as http:
        assert (await http.get("/debug/console/state?search=" + "x" * 101)).status_code == 400
        missing = await http.get("/debug/console/pods/%3Cscript%3E")
        assert missing.status_code == 404
        assert "<" not in missing.text


async def test_a_follower_names_the_leader_instead_of_a_timeline() -> None:
    async with client(debug_port(debug=FakeDebug(leader_hint="the leader is another one"))) as http:
        reply = await http.get("/debug/console/pods/u1")
    assert (reply.status_code, reply.json()) == (503, {"error": "the leader is another one"})
