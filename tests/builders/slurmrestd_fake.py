"""A slurmrestd of a few lines: pings for the configured versions, and the answers of a test."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypedDict, Unpack
from urllib.parse import quote, urlencode

import httpx

from slurmclient import (
    ConnectError,
    Reply,
    Request,
    RetryPolicy,
    SlurmClient,
    StaticToken,
    TokenSource,
    TransportError,
)

NOT_FOUND = "Unable find requested URL. Please view /openapi/v3 for API reference."

Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]
Json = dict[str, object]


def meta(version: int, release: str = "24.11.5", cluster: str = "lab") -> Json:
    """Return slurmrestd's own part of every reply."""
    major, minor, micro = release.split(".")
    return {
        "plugin": {"type": "openapi/slurmctld", "data_parser": f"data_parser/v0.0.{version}", "accounting_storage": ""},
        "slurm": {
            "version": {"major": major, "micro": micro, "minor": minor},
            "release": release,
            "cluster": cluster,
        },
    }


def reply(payload: Mapping[str, object] | None = None, *, status: int = 200) -> httpx.Response:
    """Return a reply with slurmrestd's frame around a payload."""
    body = {"errors": [], "warnings": [], **(payload or {})}
    return httpx.Response(status, json=body)


def refusal(number: int, status: int = 500, *, error: str = "words", source: str = "slurm_x()") -> httpx.Response:
    """Return a reply with one error."""
    entry = {"description": "Request failed", "error_number": number, "error": error, "source": source}
    return reply({"errors": [entry]}, status=status)


def plain(status: int, text: str) -> httpx.Response:
    """Return a reply in plain text, as slurmrestd's router and parser give."""
    return httpx.Response(status, text=text)


class FunctionSender:
    """Send requests to a function. If it raises a connect error of httpx, no request was sent."""

    def __init__(
        self, answer: Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]], *addresses: str
    ) -> None:
        self._answer = answer
        self._addresses = list(addresses) or ["http://restd.test:6820"]
        self._closed = False
        self.observe: Callable[[str, str, int], None] = lambda _method, _path, _status: None

    @property
    def address(self) -> str:
        return self._addresses[0]

    def leave(self, address: str) -> None:
        if address == self.address:
            self._addresses.append(self._addresses.pop(0))

    async def send(self, request: Request, headers: Mapping[str, str], deadline: float) -> Reply:
        if self._closed:
            raise ConnectError("this client is closed", endpoint=request.endpoint)
        url = f"{self.address}{request.path}"
        if request.query:
            url = f"{url}?{urlencode(request.query, quote_via=quote)}"
        sent = httpx.Request(request.method, url, headers=dict(headers), content=request.body)
        try:
            async with asyncio.timeout_at(deadline):
                answer = self._answer(sent)
                response = answer if isinstance(answer, httpx.Response) else await answer
        except httpx.ConnectError as error:
            raise ConnectError(str(error), endpoint=request.endpoint) from error
        except (httpx.TransportError, TimeoutError) as error:
            raise TransportError(str(error), endpoint=request.endpoint) from error
        self.observe(request.method, request.path, response.status_code)
        kind = response.headers.get("content-type", "")
        return Reply(response.status_code, kind, response.content, self.address)

    async def aclose(self) -> None:
        self._closed = True


class FakeRestd:
    """Answer requests, and remember them.

    Attributes:
        versions: served; a path of another one is not found.
        release: named in every reply.
        responding: whether slurmctld is said to answer.
        requests: all, in order, pings left out.
        pings: number of pings.
    """

    def __init__(self, *versions: int, release: str = "24.11.5") -> None:
        self.versions = set(versions or (42, 41, 40))
        self.release = release
        self.cluster = "lab"
        self.responding = True
        self.requests: list[httpx.Request] = []
        self.pings = 0
        self._answers: dict[tuple[str, str], list[Answer]] = {}

    def on(self, method: str, path: str, *answers: Answer) -> FakeRestd:
        """Put up answers for a path below the version; the last one is given again and again."""
        self._answers[method, path] = list(answers)
        return self

    @property
    def bodies(self) -> list[Json]:
        """Return the JSON bodies of the requests."""
        return [json.loads(request.content) for request in self.requests]

    def sender(self, *addresses: str) -> FunctionSender:
        """Return the sender of its requests."""
        return FunctionSender(self.answer, *addresses)

    async def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        await asyncio.sleep(0)  # as on a network, others get their turn
        _, part, label, *rest = request.url.raw_path.decode().partition("?")[0].split("/")
        path = "/".join(rest)
        version = int(label.rpartition(".")[2])
        if version not in self.versions:
            return plain(404, NOT_FOUND)
        if path == "ping":
            self.pings += 1
            return self._framed(version, reply({"pings": [self._ping(version)]}))
        self.requests.append(request)
        waiting = self._answers.get((request.method, path if part == "slurm" else f"{part}/{path}"))
        if not waiting:
            return plain(404, NOT_FOUND)
        chosen = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(chosen, Exception):
            raise chosen
        response = chosen if isinstance(chosen, httpx.Response) else chosen(request)
        return self._framed(version, response)

    def _ping(self, version: int) -> Json:
        if version >= 42:
            return {"hostname": "ctl", "responding": self.responding, "primary": True, "latency": 900}
        return {
            "hostname": "ctl",
            "pinged": "UP" if self.responding else "DOWN",
            "mode": "primary",
            "latency": 900,
        }

    def _framed(self, version: int, response: httpx.Response) -> httpx.Response:
        """Give a fresh copy that names this slurmrestd, as every JSON reply does."""
        content = response.content
        if response.headers.get("content-type") == "application/json":
            try:
                body = json.loads(content)
            except ValueError:
                body = None
            if isinstance(body, dict):
                content = json.dumps({"meta": meta(version, self.release, self.cluster), **body}).encode()
        headers = {name: value for name, value in response.headers.items() if name != "content-length"}
        return httpx.Response(response.status_code, headers=headers, content=content)


class ClientOptions(TypedDict, total=False):
    """Name the options of a client in a test."""

    addresses: Sequence[str]
    token: TokenSource
    user: str | None
    retry: RetryPolicy
    api_versions: Sequence[int]
    sender: FunctionSender


def client_of(restd: FakeRestd, **options: Unpack[ClientOptions]) -> SlurmClient:
    """Give a client of it, on no sockets."""
    addresses = options.get("addresses", ["http://restd.test:6820"])
    return SlurmClient(
        addresses,
        options.get("token", StaticToken("token-1")),
        user=options.get("user"),
        sender=options.get("sender") or restd.sender(*addresses),
        retry=options.get("retry"),
        rng=random.Random(7),
        api_versions=options.get("api_versions"),
    )
