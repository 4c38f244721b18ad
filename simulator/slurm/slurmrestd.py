"""The simulated slurmrestd, an ASGI application over a `Slurmctld`: routing, tokens, faults, the frame of replies."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, unquote

import jwt

from simulator.slurm.endpoints import OPERATORS, USERS, RestCall, RestReply, Route, error, find_route
from simulator.slurm.errors import TEXTS, SlurmRefusal
from simulator.slurm.faults import SlurmFault, SlurmFaultRule, SlurmFaults
from simulator.slurm.serialization import Json
from simulator.slurm.slurmctld import Slurmctld

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_AUTHENTICATION = 1007
_NO_ROUTE = "Unable find requested URL. Please view /openapi/v3 for API reference."

CONTACT_S = 10.0
"""How long slurmrestd tries to reach a slurmctld that is away before it says so."""


@dataclass(frozen=True, slots=True)
class _RestRequest:
    """An HTTP request as far as slurmrestd looks at it. `version` 0: the path names none."""

    method: str
    version: int
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes


class _PlainTextError(Exception):
    """An answer that is not JSON: routing and missing credentials."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Slurmrestd:
    """Answers HTTP requests. `jwt_key` signs the tokens that are taken; `None` takes every token as root's.

    `slurmctld_up` False is a slurmctld that does not answer; `requests` counts what came, by method and path.
    """

    def __init__(self, controller: Slurmctld, jwt_key: bytes | None = None) -> None:
        self.controller = controller
        self.faults = SlurmFaults()
        self.slurmctld_up = True
        self.cluster = "sim"
        self.requests: list[tuple[str, str]] = []
        self._jwt_key = jwt_key
        self._goes = asyncio.Event()
        self._goes.set()

    def stop_slurmctld(self) -> None:
        """Stop slurmctld, as SIGSTOP: requests are carried out later, although no client waits for the answer."""
        self._goes.clear()

    def continue_slurmctld(self) -> None:
        """Continue slurmctld, as SIGCONT."""
        self._goes.set()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one HTTP request, or never, if a fault says so."""
        request = _parse_request(scope, await _body(receive))
        self.requests.append((request.method, request.path))
        rule = self.faults.strike(request.method, request.path)
        fault = rule.fault if rule else None
        if fault is SlurmFault.LOSE_REQUEST:
            await _until_gone(receive)
            return
        await self._goes.wait()
        if rule is not None and fault is SlurmFault.LATE:
            await asyncio.sleep(rule.seconds)
        status, payload = await self._answer(request, rule)
        if fault is SlurmFault.LOSE_ANSWER:
            await _until_gone(receive)
            return
        if rule is not None and fault is SlurmFault.DELAY:
            await asyncio.sleep(rule.seconds)
        if fault is SlurmFault.GARBAGE:
            text = payload if isinstance(payload, str) else json.dumps(payload)
            payload = text[: len(text) // 2]
        await _reply(send, status, payload)

    async def _answer(self, request: _RestRequest, rule: SlurmFaultRule | None) -> tuple[int, Json | str]:
        release = self.controller.release
        try:
            if request.version not in release.api_versions:
                raise _PlainTextError(404, _NO_ROUTE)
            caller, genuine = self._caller(request.headers)
            if rule is not None and rule.fault is SlurmFault.REFUSE:
                raise SlurmRefusal(rule.number, text="injected")
            if request.path == "/ping" and request.method == "GET":
                return 200, self._frame(request, self._ping(request, genuine))
            found = find_route(request.method, request.path, request.version, release.year_and_month)
            if found is None:
                raise _PlainTextError(404, _NO_ROUTE)
            if not genuine:
                raise SlurmRefusal(_AUTHENTICATION, status=511)
            if not self.slurmctld_up or (rule is not None and rule.fault is SlurmFault.UNAVAILABLE):
                await asyncio.sleep(CONTACT_S)
                raise _unavailable(request)
            route, argument = found
            call = RestCall(self.controller, request.version, caller, argument, request.query, _json(request.body))
            answered = self._handled(route, call)
            if rule is not None and rule.fault is SlurmFault.FAIL_AFTER:
                raise SlurmRefusal(-1, status=500)
            return 200, self._frame(request, answered)
        except _PlainTextError as answer:
            return answer.status, str(answer)
        except SlurmRefusal as refusal:
            reported = error(refusal.number, str(refusal), refusal.source)
            status = refusal.status or release.refusal_status
            return status, self._frame(request, RestReply(refusal.beside, errors=(reported,)))

    def _handled(self, route: Route, call: RestCall) -> RestReply:
        self.controller.in_client_request = True
        try:
            return route.handle(call)
        finally:
            self.controller.in_client_request = False

    def _caller(self, headers: Mapping[str, str]) -> tuple[str, bool]:
        """Return the user of the request, and whether slurmctld will accept it. slurmrestd only requires a token."""
        token = headers.get("x-slurm-user-token") or headers.get("authorization", "").removeprefix("Bearer ")
        if not token:
            raise _PlainTextError(401, "Authentication failure")
        owner = "root" if self._jwt_key is None else self._owner(token, self._jwt_key)
        name = headers.get("x-slurm-user-name") or owner
        return name, bool(owner) and name in USERS and (name == owner or owner in OPERATORS)

    def _owner(self, token: str, key: bytes) -> str:
        """Return the user of a token, "" for one that is forged or expired. Its dates are on the simulated clock."""
        try:
            options: Any = {"verify_exp": False, "verify_iat": False}
            claims = jwt.decode(token, key, algorithms=["HS256"], options=options)
        except jwt.InvalidTokenError:
            return ""
        return str(claims.get("sun", "")) if float(claims.get("exp", 0)) > self.controller.timers.wall() else ""

    def _ping(self, request: _RestRequest, genuine: bool) -> RestReply:
        responding = genuine and self.slurmctld_up
        ping: Json = {"hostname": "sim", "latency": 800, "primary": True, "responding": responding}
        if request.version <= 44:
            ping |= {"pinged": "UP" if responding else "DOWN", "mode": "primary"}
        return RestReply({"pings": [ping]})

    def _frame(self, request: _RestRequest, answered: RestReply) -> Json:
        year, month, micro = self.controller.release.text.split(".")
        meta = {
            "plugin": {
                "type": "openapi/slurmctld",
                "name": "sim",
                "data_parser": f"data_parser/v0.0.{request.version}",
            },
            "client": {"source": "memory", "user": "root", "group": "root"},
            "command": [],
            "slurm": {
                "version": {"major": year, "micro": micro, "minor": month},
                "release": self.controller.release.text,
                "cluster": self.cluster,
            },
        }
        lists = {"errors": list(answered.errors), "warnings": list(answered.warnings)}
        return {**answered.payload, "meta": meta, **lists}


def _unavailable(request: _RestRequest) -> SlurmRefusal:
    """Return the answer of each call while slurmctld is away."""
    if request.path == "/jobs/state" or (request.method == "GET" and request.path.startswith("/job/")):
        return SlurmRefusal(-1, status=500)
    if request.method == "DELETE":
        return SlurmRefusal(1, status=403)
    return SlurmRefusal(1800, text=TEXTS[1800], status=502)


def _parse_request(scope: Mapping[str, Any], body: bytes) -> _RestRequest:
    raw = scope.get("raw_path")
    whole = unquote(raw.decode().partition("?")[0]) if raw else str(scope["path"])
    found = re.fullmatch(r"/slurm/v0\.0\.(\d+)(/.*?)/?", whole)
    headers = {key.decode().lower(): value.decode() for key, value in scope["headers"]}
    query = parse_qs(scope.get("query_string", b"").decode())
    request = _RestRequest(scope["method"], 0, whole, query, headers, body)
    return replace(request, version=int(found[1]), path=found[2]) if found else request


def _json(body: bytes) -> Any:
    if not body:
        return None
    try:
        return json.loads(body)
    except ValueError as fault:
        raise _PlainTextError(400, "Unable to parse query.") from fault


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b"".join(parts)
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _reply(send: Send, status: int, payload: Json | str) -> None:
    text = payload if isinstance(payload, str) else json.dumps(payload, separators=(",", ":"))
    kind = b"text/plain" if isinstance(payload, str) else b"application/json"
    content = text.encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(content)).encode())]
    if not 200 <= status < 300:
        headers.append((b"connection", b"close"))  # as every answer of slurmrestd that is no success
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
