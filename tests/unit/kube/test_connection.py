"""The connection says in our own words what came of a request."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest
import trustme
from looptime import LoopTimeProxy

from extender.kube.connection import MERGE_PATCH, CredentialsError, connect, connect_plainly
from extender.kube.errors import (
    ApiUnavailable,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Throttled,
    Unauthorized,
)
from extender.kube.write_check import WriteCheck
from simulator.kube.faults import KubeFault
from simulator.kube.objects import a_pod
from simulator.network.aiohttp_connector import MemoryConnector
from simulator.network.asgi_server import serve
from simulator.network.memory import Network
from tests.builders.byte_server import deaf_server
from tests.builders.fake_api import fake_api

pytestmark = pytest.mark.looptime
real_sockets = pytest.mark.looptime(False)
"""The kernel carries the bytes, in real time, in which virtual time would run on to the end of every patience."""

PODS = "/api/v1/namespaces/default/pods"


async def test_a_request_brings_status_headers_and_bytes() -> None:
    async with fake_api() as api:
        answer = await api.connection.request("POST", PODS, body=a_pod("p"))
        assert answer.status == 201
        assert answer.headers["content-type"] == "application/json"
        assert json.loads(answer.body)["metadata"]["name"] == "p"


async def test_a_body_is_sent_with_the_content_type_requested() -> None:
    async with fake_api() as api:
        api.server.add_pod("p")
        patch = {"metadata": {"labels": {"a": "b"}}}
        await api.connection.request("PATCH", f"{PODS}/p", body=patch, content_type=MERGE_PATCH)
        pod = api.server.pod("p")
        assert pod is not None
        assert pod["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, Invalid),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (422, Invalid),
        (429, Throttled),
        (500, ApiUnavailable),
        (503, ApiUnavailable),
    ],
)
async def test_each_refusal_has_its_error(code: int, error: type[Exception]) -> None:
    async with fake_api() as api:
        api.server.faults.add(KubeFault(code=code, times=None, message="because"))
        with pytest.raises(error, match="because"):
            await api.connection.request("GET", PODS)


async def test_a_429_has_its_retry_after() -> None:
    async with fake_api() as api:
        api.server.faults.add(KubeFault(code=429, retry_after_s=7))
        with pytest.raises(Throttled) as caught:
            await api.connection.request("GET", PODS)
        assert caught.value.retry_after_s == 7


async def test_a_server_error_leaves_the_outcome_of_a_write_unknown() -> None:
    async with fake_api() as api:
        api.server.faults.add(KubeFault(code=500, after=True))
        with pytest.raises(OutcomeUnknown):
            await api.connection.request("POST", PODS, body=a_pod("p"))
        assert api.server.pod("p") is not None


async def test_a_lost_answer_leaves_the_outcome_of_a_write_unknown() -> None:
    async with fake_api() as api:
        api.cut_after(0)
        with pytest.raises(OutcomeUnknown):
            await api.connection.request("POST", PODS, body=a_pod("p"))
        assert api.server.pod("p") is not None


@pytest.mark.parametrize("nonsense", [b"", b"<html>", b"[]", b'{"kind": "Sta'])
async def test_nonsense_in_place_of_an_answer_leaves_the_outcome_of_a_write_unknown(nonsense: bytes) -> None:
    async def says_it(
        _scope: object, receive: Callable[[], Awaitable[object]], send: Callable[[object], Awaitable[None]]
    ) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": nonsense})

    network = Network()
    connection = connect_plainly("http://kube:6443", lambda: "t", lambda: MemoryConnector(network))
    async with serve(network, says_it, "kube", 6443):
        with pytest.raises(OutcomeUnknown, match="201 is no JSON object"):
            await connection.request("POST", PODS, body=a_pod("p"))
        await connection.close()


async def test_a_lost_answer_to_a_read_changed_nothing() -> None:
    async with fake_api() as api:
        await api.connection.request("GET", PODS)
        api.server.faults.add(KubeFault(code=0, times=None))
        with pytest.raises(ApiUnavailable, match=r"GET /api/v1/namespaces/default/pods: no answer within 2 s"):
            await api.connection.request("GET", PODS, timeout_s=2)


async def test_a_request_that_never_left_changed_nothing() -> None:
    async with fake_api() as api:
        api.refuse()
        with pytest.raises(ApiUnavailable, match="refused"):
            await api.connection.request("POST", PODS, body=a_pod("p"))


async def test_every_request_has_a_deadline(looptime: LoopTimeProxy) -> None:
    async with fake_api() as api:
        api.server.faults.add(KubeFault(code=0))
        with pytest.raises(OutcomeUnknown):
            await api.connection.request("POST", PODS, body=a_pod("p"), timeout_s=3)
        assert looptime == 3


async def test_a_stalled_connection_ends_with_the_deadline_too(looptime: LoopTimeProxy) -> None:
    async with fake_api() as api:
        api.stall()
        with pytest.raises(ApiUnavailable):
            await api.connection.request("GET", PODS, timeout_s=3)
        assert looptime == 3
        api.resume()


async def test_after_a_401_the_token_is_read_again() -> None:
    numbers = count()
    async with fake_api(token=lambda: f"token-{next(numbers)}") as api:
        api.server.tokens = {"token-1"}
        assert (await api.connection.request("GET", PODS)).status == 200
        api.server.tokens = {"token-2"}
        async with api.connection.watch(PODS, {"watch": "true"}, silence_s=60):
            assert api.app.watches == 1


async def test_a_token_that_does_not_change_is_not_tried_twice() -> None:
    async with fake_api() as api:
        api.server.tokens = {"another"}
        with pytest.raises(Unauthorized):
            await api.connection.request("GET", PODS)


async def test_a_watch_yields_whole_lines_however_they_arrive() -> None:
    async with fake_api() as api:
        api.network.segment = 7
        for number in range(3):
            api.server.add_pod(f"p{number}")
        async with api.connection.watch(PODS, {"watch": "true"}, silence_s=60) as lines:
            seen = [json.loads(await anext(lines))["object"]["metadata"]["name"] for _ in range(3)]
            api.server.add_pod("late")
            seen.append(json.loads(await anext(lines))["object"]["metadata"]["name"])
        assert seen == ["p0", "p1", "p2", "late"]


async def test_a_watch_that_is_refused_raises_on_entering() -> None:
    async with fake_api() as api:
        api.server.faults.add(KubeFault(code=403))
        with pytest.raises(Forbidden):
            await api.connection.watch(PODS, {"watch": "true"}, silence_s=60).__aenter__()


async def test_a_silent_watch_is_given_up(looptime: LoopTimeProxy) -> None:
    async with fake_api() as api:
        async with api.connection.watch(PODS, {"watch": "true"}, silence_s=60) as lines:
            with pytest.raises(ApiUnavailable, match="nothing came for 60 s"):
                await anext(lines)
        assert looptime == 60


async def test_a_watch_that_is_cut_within_a_line_yields_no_part_of_it() -> None:
    async with fake_api() as api:
        api.server.add_pod("p")
        api.cut_after(300)
        async with api.connection.watch(PODS, {"watch": "true"}, silence_s=60) as lines:
            with pytest.raises(ApiUnavailable):
                await anext(lines)


async def test_leaving_a_watch_closes_its_connection() -> None:
    async with fake_api() as api:
        async with api.connection.watch(PODS, {"watch": "true"}, silence_s=60):
            assert api.app.watches == 1
        for _ in range(10):
            await asyncio.sleep(0)
        assert (api.app.watches, api.connections) == (0, 0)


async def test_a_kubeconfig_names_address_and_token(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("kube") / "config"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    path.write_text(json.dumps(config))
    connection = await connect(str(path), environ={})
    assert connection.url == "http://127.0.0.1:1"
    await connection.close()


@real_sockets
async def test_in_the_cluster_the_token_is_read_again_after_a_401(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("serviceaccount")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    (folder / "token").write_text("first\n")
    seen: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            seen.append(next(line for line in head.decode().split("\r\n") if line.lower().startswith("authorization")))
            body = b'{"kind":"Status","code":401}' if "first" in seen[-1] else b"{}"
            status = "401 Unauthorized" if "first" in seen[-1] else "200 OK"
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            (folder / "token").write_text("second\n")

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}
    connection = await connect(environ=environ, service_account=folder)
    try:
        assert (await connection.request("GET", PODS)).status == 200
    finally:
        await connection.close()
        server.close()
        await server.wait_closed()
    assert [line.split()[-1] for line in seen] == ["first", "second"]


async def test_a_kubeconfig_that_cannot_be_used_is_named() -> None:
    with pytest.raises(CredentialsError, match="kubeconfig /nowhere/config"):
        await connect("/nowhere/config", environ={})


async def test_a_kubeconfig_that_is_missing_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="there is no kubeconfig: KUBECONFIG names /nowhere/config"):
        await connect(environ={"KUBECONFIG": "/nowhere/config"})
    with pytest.raises(CredentialsError, match=f"KUBECONFIG is not set, and {tmp_path}/.kube/config is not there"):
        await connect(environ={"HOME": str(tmp_path)})


@pytest.mark.parametrize("text", ["users: [", "[]", "current-context: c\ncontexts: [{name: c}]\n", "\x00"])
async def test_a_kubeconfig_that_is_no_kubeconfig_is_named(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("kube") / "config"
    path.write_text(text)
    with pytest.raises(CredentialsError, match=str(path)):
        await connect(str(path), environ={})


@real_sockets
async def test_a_kubeconfig_that_breaks_while_it_is_in_use_is_an_error_like_others(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    path = tmp_path_factory.mktemp("kube") / "config"
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    path.write_text(json.dumps(config))
    connection = await connect(str(path), environ={})
    path.write_text("users: [")
    try:
        with pytest.raises(ApiUnavailable, match="cannot be read again"):
            await connection.request("GET", PODS)
    finally:
        await connection.close()
        server.close()
        await server.wait_closed()


async def test_a_token_that_no_header_can_hold_is_an_error_without_the_token() -> None:
    network = Network()
    connection = connect_plainly("http://kube:6443", lambda: "se\ncret", lambda: MemoryConnector(network))
    with pytest.raises(ApiUnavailable, match="line break") as caught:
        await connection.request("GET", PODS)
    assert "cret" not in str(caught.value)
    await connection.close()


@real_sockets
@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="tcp(7) of Linux")
async def test_bytes_that_are_not_taken_are_given_up_by_the_kernel() -> None:
    with deaf_server() as port:
        connection = connect_plainly(
            f"http://127.0.0.1:{port}", lambda: "t", write_check=WriteCheck(acknowledged_s=0.3)
        )
        with pytest.raises(OutcomeUnknown) as caught:
            await connection.request("POST", PODS, body={"text": "x" * 900_000}, timeout_s=60)
        assert "no answer within" not in str(caught.value)
        await connection.close()


@pytest.mark.parametrize("prefix", ["", "/clusters/one"])
async def test_who_may_not_write_may_write_the_lease_by_which_that_is_had(prefix: str) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/missing"
    async with fake_api() as api:
        address = f"http://apiserver:6443{prefix}"
        connection = connect_plainly(
            address, lambda: "t", lambda: MemoryConnector(api.network), WriteCheck(lambda: False)
        )
        with pytest.raises(NotFound):
            await connection.request("PUT", lease, body={})
        with pytest.raises(ApiUnavailable, match="may not write now"):
            await connection.request("POST", PODS, body={})
        await connection.close()


@pytest.mark.parametrize(("path", "waits"), [(PODS, 3.0), ("/apis/coordination.k8s.io/v1/leases", 10.0)])
async def test_no_caller_waits_for_the_answer_to_a_write_when_another_one_may_write(
    path: str, waits: float, looptime: LoopTimeProxy
) -> None:
    network = Network()
    network.stall("kube", 6443)
    write_check = WriteCheck(answer_within_s=lambda: 3.0)
    connection = connect_plainly("http://kube:6443", lambda: "t", lambda: MemoryConnector(network), write_check)
    with pytest.raises(OutcomeUnknown, match=f"no answer within {waits:g} s"):
        await connection.request("POST", path, body={})
    assert looptime == waits
    await connection.close()
