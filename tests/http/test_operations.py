"""Probes, metrics and debugging: what operators see, and at which address."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from fastapi import FastAPI

from extender.config.document import ExtenderConfiguration
from extender.config.load import parse
from extender.http.app import Services, application, endpoints
from extender.http.health import router
from extender.http.service import Check
from extender.observability.metrics.registry import Metrics
from tests.builders.services import FakeDebug, FakeScheduling, FakeServices, StillClock, client

HEAD = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: hush}\n"
ONE_ADDRESS = (
    "http: {bind: '127.0.0.1:9'}\nhooks: {bind: '127.0.0.1:9'}\n"
    "observability: {healthBind: '127.0.0.1:9', metricsBind: '127.0.0.1:9', debugBind: '127.0.0.1:9'}\n"
)


def configuration(body: str = "") -> ExtenderConfiguration:
    return parse(HEAD + body, "c.yaml")


def services(ready: bool = True, debug: FakeDebug | None = None) -> Services:
    clock = StillClock()
    return Services(FakeServices(FakeScheduling(ready=ready), debug=debug or FakeDebug()), Metrics(clock), clock)


def whole(ready: bool = True, debug: FakeDebug | None = None) -> FastAPI:
    [endpoint] = endpoints(configuration(ONE_ADDRESS), services(ready, debug))
    return endpoint.app


def probes(ready: bool, *checks: Check) -> FastAPI:
    return application([router(lambda: ready, lambda: checks)])


@pytest.fixture
def logged() -> Iterator[None]:
    """The log as it was, afterwards."""
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


@pytest.mark.usefixtures("logged")
async def test_how_much_is_logged_can_be_changed_and_nothing_else() -> None:
    async with client(whole()) as http:
        reply = await http.put("/debug/log-level?level=error")
        assert (reply.status_code, reply.json()) == (200, {"level": "error"})
        assert (await http.get("/debug/log-level")).json() == {"level": "error"}
        odd = await http.put("/debug/log-level?level=loud")
        assert odd.status_code == 400
        assert "debug" in odd.json()["error"]
        assert (await http.put("/debug/config")).status_code == 405


@pytest.mark.parametrize("path", ["/livez", "/healthz"])
async def test_live_is_what_answers(path: str) -> None:
    async with client(probes(False, Check("pods", False))) as http:
        reply = await http.get(path)
    assert (reply.status_code, reply.text) == (200, "ok")


async def test_ready_is_who_knows_the_cluster_whatever_slurm_does() -> None:
    slurm = Check("slurm", False, "no poll for 70 s", required=False)
    async with client(probes(True, Check("pods", True), slurm)) as http:
        assert (await http.get("/readyz")).status_code == 200
        verbose = await http.get("/readyz?verbose")
    assert verbose.text == "[+]pods ok\n[-]slurm no poll for 70 s (for information)\nreadyz check passed\n"


async def test_what_is_not_ready_says_why_by_itself() -> None:
    async with client(probes(False, Check("pods", False), Check("nodes", True))) as http:
        reply = await http.get("/readyz")
    assert reply.status_code == 503
    assert reply.text == "[-]pods failed\n[+]nodes ok\nreadyz check failed\n"


async def test_metrics_are_plain_text_for_prometheus() -> None:
    async with client(whole()) as http:
        reply = await http.get("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "slurm_extender_build_info{" in reply.text


async def test_debugging_shows_what_is_known() -> None:
    async with client(whole()) as http:
        assert (await http.get("/debug/placeholders")).json() == [{"key": "u1", "state": "WAITING"}]
        assert (await http.get("/debug/placeholders/u1")).json()["history"] == ["ABSENT -> WAITING"]
        missing = await http.get("/debug/placeholders/%22%F0%9F%90%99")
        assert (await http.get("/debug/gangs?namespace=a")).json() == [{"name": "gang ring", "namespace": "a"}]
        assert (await http.get("/debug/gangs/u1")).json()["members"] == [{"uid": "u1"}]
        assert (await http.get("/debug/gangs/u2")).status_code == 404
        assert (await http.get("/debug/nodes")).json() == {"slurm": ["n1"]}
        assert (await http.get("/debug/queue")).json() == {"partitions": [{"name": "batch"}]}
        assert (await http.get("/debug/shares?account=a&account=b")).json() == {
            "shares": [{"account": "a"}, {"account": "b"}]
        }
        assert (await http.get("/debug/config")).json() == {"kind": "ExtenderConfiguration"}
        assert (await http.get("/debug/checks")).json()[1]["text"] == "no poll for 70 s"
    assert missing.status_code == 404
    assert "no placeholder" in missing.json()["error"]


async def test_shares_that_slurm_does_not_give_are_an_error_with_its_reason() -> None:
    async with client(whole(debug=FakeDebug(shares_error="the cluster has no slurmdbd"))) as http:
        reply = await http.get("/debug/shares")
        many = await http.get("/debug/shares?" + "&".join(f"account=a{n}" for n in range(101)))
    assert (reply.status_code, reply.json()) == (503, {"error": "the cluster has no slurmdbd"})
    assert many.status_code == 400


async def test_a_follower_names_the_leader_instead_of_gangs() -> None:
    debug = FakeDebug()
    debug.leader_hint = "the leader is another one"
    async with client(whole(debug=debug)) as http:
        for path in ("gangs", "gangs/u2", "queue"):
            reply = await http.get(f"/debug/{path}")
            assert (reply.status_code, reply.json()) == (503, {"error": "the leader is another one"})


class Thousands(FakeDebug):
    """Knows many Pods, and at which turn of the loop each was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = 0
        self.called_at: list[int] = []

    def placeholders(self) -> Iterator[Mapping[str, Any]]:
        for number in range(100):
            self.called_at.append(self.turn)
            yield {"key": f"u{number}"}

    async def others(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)


async def test_a_list_of_thousands_gives_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.runtime.cooperative_yield.SLICE_S", -1.0)
    debug = Thousands()
    beside = asyncio.create_task(debug.others())
    async with client(whole(debug=debug)) as http:
        shown = (await http.get("/debug/placeholders")).json()
    beside.cancel()
    assert shown == [{"key": f"u{number}"} for number in range(100)]
    assert len(set(debug.called_at)) == 100


async def test_debugging_changes_nothing() -> None:
    async with client(whole()) as http:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert (await http.request(method, "/debug/placeholders")).status_code == 405


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/", "/scheduler", "/debug"])
async def test_nothing_else_is_served(path: str) -> None:
    async with client(whole()) as http:
        assert (await http.get(path)).status_code == 404


# Which address serves what.


async def served(app: FastAPI) -> set[str]:
    routes = {
        "scheduling": ("POST", "/scheduler/filter"),
        "hooks": ("POST", "/hooks/jobs/1/started"),
        "health": ("GET", "/livez"),
        "metrics": ("GET", "/metrics"),
        "debug": ("GET", "/debug/config"),
    }
    async with client(app) as http:
        return {
            name for name, (method, path) in routes.items() if (await http.request(method, path)).status_code != 404
        }


async def test_each_address_serves_its_own_and_no_more() -> None:
    found = endpoints(configuration("hooks: {bind: '127.0.0.1:8000'}"), services())
    assert {str(endpoint.bind): await served(endpoint.app) for endpoint in found} == {
        "127.0.0.1:8080": {"scheduling"},
        "127.0.0.1:8000": {"hooks"},
        "127.0.0.1:8081": {"health"},
        "127.0.0.1:8082": {"metrics"},
        "127.0.0.1:8083": {"debug"},
    }


async def test_one_address_can_serve_everything() -> None:
    [endpoint] = endpoints(configuration(ONE_ADDRESS), services())
    assert await served(endpoint.app) == {"scheduling", "hooks", "health", "metrics", "debug"}
    assert len(endpoint.names) == 5


def test_what_is_not_configured_is_not_served() -> None:
    found = endpoints(configuration("observability: {debugBind: null}"), services())
    assert [str(endpoint.bind) for endpoint in found] == ["127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8082"]


def test_a_listener_has_the_certificate_of_its_endpoint() -> None:
    body = "http: {tls: {certificateFile: a, keyFile: b}}\nhooks: {bind: ':1', tls: {certificateFile: c, keyFile: d}}\n"
    found = {endpoint.names[0]: endpoint.tls for endpoint in endpoints(configuration(body), services())}
    assert found["http.bind"] is not None
    assert found["http.bind"].certificate_file == "a"
    assert found["hooks.bind"] is not None
    assert found["hooks.bind"].certificate_file == "c"
    assert found["observability.healthBind"] is None


async def test_the_debug_port_describes_the_routes_of_all_listeners() -> None:
    async with client(whole()) as http:
        document = (await http.get("/debug/openapi.json")).json()
    assert document["openapi"].startswith("3.")
    listeners = {path: next(iter(one.values()))["x-listener"] for path, one in document["paths"].items()}
    assert listeners["/scheduler/filter"] == "http.bind"
    assert listeners["/hooks/jobs/{job_id}/teardown"] == "hooks.bind"
    assert listeners["/debug/openapi.json"] == "observability.debugBind"
    body = document["paths"]["/scheduler/filter"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["$ref"].rpartition("/")[2] in document["components"]["schemas"]
    assert set(document["paths"]["/debug/log-level"]) == {"get", "put"}


def test_kube_scheduler_may_open_every_connection_from_one_address_and_a_client_of_admission_half() -> None:
    config = configuration("admission: {bind: ':8443'}\nhooks: {bind: ':8000'}\n")
    limits = {one.names[0]: one.bounds for one in endpoints(config, services())}
    of_scheduler, of_admission = limits["http.bind"], limits["admission.bind"]
    assert of_scheduler.per_address == of_scheduler.connections >= 2 * config.gangs.largest
    assert of_admission.per_address == of_admission.connections // 2
    assert limits["hooks.bind"].per_address == config.hooks.connections_per_address
