"""Compare the CPU time of the HTTP client of `slurmclient` with that of aiohttp on the requests of Pods' lives.

    python -m bench.http_clients [--pairs N] [--pods N]

A server process answers with recorded answers of slurmrestd 26.05. In this process, on uvloop as the extender is, both
clients send in turn what one Pod needs: an allocation, a read of the job, a poll of the states, another read, and a
cancel; 8 Pods at a time. Everything above the connections is the same code in both arms: session, retries, codecs,
JSON. The aiohttp arm keeps the promises of the own client, because each of them costs time: the write gate is asked
before the head and before the body, answers and heads are bounded, redirects are errors, no request is sent twice, a
kept connection that was closed is not used, no proxy, cookie or compressed body is used, and sockets have
TCP_USER_TIMEOUT. One of them needs a private part of aiohttp: see `HeadFirst`.

Each pair gives the difference of the two arms in milliseconds of CPU per Pod; the report has the median with a 95 %
bootstrap interval. `bench/results/cost.json` has the CPU for placing a Pod at once, without its end, so the report
relates to it the two requests that such a Pod needs until it is bound.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import random
import select
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import uvloop
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from bench.figures import RESULTS, write
from slurmclient import JobDescription, SlurmClient, StaticToken, Timeouts
from slurmclient.connection import LONGEST_BODY, LONGEST_HEAD, Broken, CannotConnect, HttpResponse
from slurmclient.connection_pool import ConnectionPool, Outgoing
from slurmclient.tls import no_tls
from slurmclient.transport import Transport

RECORDED = Path(__file__).parents[1] / "tests/unit/slurmclient/golden/v0.0.45-slurm-26.05.json"
CONCURRENT = 8
PODS = 400
PAIRS = 20
RESAMPLES = 10_000

PLACEMENT, LIFE = 2, 5
"""Requests of a Pod until it is bound if it is placed at once, and until its job is cancelled."""

EXTERNAL = JobDescription(
    name="team/pod-1-a7f3", external=True, immediate=True, tasks=1, memory_per_node_mb=100, cpus_per_task=1
)


class RecordedAnswers(asyncio.Protocol):
    """Answer each request at once with the recorded bytes for its first line."""

    def __init__(self, answers: Sequence[tuple[bytes, bytes]], fallback: bytes) -> None:
        self._answers = answers
        self._fallback = fallback
        self._unread = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer when head and body are complete."""
        self._unread += data
        head, end, body = self._unread.partition(b"\r\n\r\n")
        if not end:
            return
        at = head.lower().find(b"content-length:")
        if at >= 0 and len(body) < int(head[at + 15 :].split(b"\r\n", 1)[0]):
            return
        self._unread = b""
        line = head.split(b"\r\n", 1)[0]
        found = (answer for part, answer in self._answers if part in line)
        self._transport.write(next(found, self._fallback))


def serve(port: Pipe) -> None:
    """Serve on loopback until the process is ended; sends the number of the port."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))

    def framed(value: object) -> bytes:
        body = json.dumps(value, separators=(",", ":")).encode()
        return (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Type: application/json\r\n\r\n" % len(body)) + body

    found = recorded["found"]
    answers = [
        (b" /slurm/v0.0.45/ping", framed(recorded["ping"])),
        (b" /slurm/v0.0.45/job/allocate", framed(recorded["submitted"])),
        (b" /slurm/v0.0.45/job/", framed(recorded["job"])),
        (b" /slurm/v0.0.45/jobs/state", framed(recorded["jobs_state"])),
        (b"DELETE /slurm/v0.0.45/jobs", framed(found)),
    ]

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: RecordedAnswers(answers, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), "127.0.0.1", 0
        )
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


class HeadFirst(ResponseHandler):
    """Show the parser the head of an answer before the rest.

    aiohttp 3.14 drops a complete answer if bytes that do not belong to it arrive in the same segment: its parser raises
    instead of returning what it has parsed. slurmrestd 26.05 sends a second answer behind every error.
    """

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        head, end, rest = data.partition(b"\r\n\r\n")
        super().data_received(head + end)
        if rest:
            super().data_received(rest)


class FreshConnections(aiohttp.TCPConnector):
    """Use no kept connection that the other side has closed or written to, also if the loop does not know it yet."""

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> aiohttp.connector.Connection:
        """Return a connection."""
        while True:
            found = await super().connect(req, traces, timeout)
            one = found.transport.get_extra_info("socket") if found.transport is not None else None
            if one is None:
                return found
            poll = select.poll()
            poll.register(one.fileno(), select.POLLIN)
            if not poll.poll(0):
                return found
            found.close()


class AiohttpPool(ConnectionPool):
    """Exchange requests through aiohttp, with the promises of `slurmclient.connection_pool.ConnectionPool`."""

    def __init__(self, acknowledged_s: float) -> None:
        super().__init__(no_tls(), None)

        def made(where: aiohttp.AddrInfoType) -> socket.socket:
            family, kind, protocol, _, _ = where
            one = socket.socket(family, kind, protocol)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(acknowledged_s * 1000))
            return one

        async def head(
            _session: aiohttp.ClientSession, context: SimpleNamespace, _params: aiohttp.TraceRequestHeadersSentParams
        ) -> None:
            context.trace_request_ctx("head")

        async def body(
            _session: aiohttp.ClientSession, context: SimpleNamespace, _params: aiohttp.TraceRequestChunkSentParams
        ) -> None:
            context.trace_request_ctx("body")

        gate = aiohttp.TraceConfig()
        gate.on_request_headers_sent.append(head)
        gate.on_request_chunk_sent.append(body)
        connector = FreshConnections(limit=0, keepalive_timeout=60.0, socket_factory=made, ssl=no_tls())
        loop = asyncio.get_running_loop()
        connector._factory = lambda: HeadFirst(loop)  # type: ignore[assignment]
        self._session = aiohttp.ClientSession(
            connector=connector,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trace_configs=[gate],
            max_line_size=LONGEST_HEAD,
            max_field_size=LONGEST_HEAD,
            skip_auto_headers=("Accept-Encoding",),
        )
        self._timeout: aiohttp.ClientTimeout | None = None

    async def exchange(self, out: Outgoing) -> HttpResponse:
        """Exchange one request for one whole answer."""
        base, timeouts = out.base, out.timeouts
        sent: list[str] = []

        def sending(part: str) -> None:
            if part in sent:  # aiohttp repeats GET, PUT and DELETE on a new connection where a kept one was closed
                raise Broken("the connection was closed before the answer was complete")
            sent.append(part)
            out.sending()

        url = URL(f"{base.scheme}://{base.authority}{base.prefix}{out.target}", encoded=True)
        if self._timeout is None:
            self._timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=timeouts.connect_s, sock_read=timeouts.read_s
            )
        try:
            response = await self._session.request(
                out.method,
                url,
                headers=out.headers,
                data=out.body,
                allow_redirects=False,
                timeout=self._timeout,
                trace_request_ctx=sending,
            )
            try:
                if (response.content_length or 0) > LONGEST_BODY:
                    raise Broken("the answer is too long")
                parts: list[bytes] = []
                size = 0
                async for part in response.content.iter_any():
                    size += len(part)
                    if size > LONGEST_BODY:
                        raise Broken("the answer is too long")
                    parts.append(part)
                if response.status >= 300 and response.status != 304:
                    response.close()
            except BaseException:
                response.close()
                raise
            response.release()
        except aiohttp.ClientConnectorError as error:
            raise CannotConnect(str(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Broken(str(error)) from error
        headers = response.headers
        return HttpResponse(
            response.status, headers.get("Content-Type", ""), b"".join(parts), headers.get("Location", "")[:200]
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._session.close()


def client(port: int, *, by_aiohttp: bool) -> SlurmClient:
    """Return a client of the server on this port of loopback."""
    made = SlurmClient(
        [f"http://127.0.0.1:{port}"],
        StaticToken("t"),
        timeouts=Timeouts(acknowledged_s=10.0),
        connections=CONCURRENT,
        may_write=lambda: True,
    )
    if by_aiohttp:
        assert isinstance(made._sender, Transport)
        for route in made._sender._routes:
            route.pool = AiohttpPool(10.0)
    return made


async def lives(slurm: SlurmClient, pods: int) -> None:
    """Send the requests of so many Pods, a few Pods at a time."""
    job_id = json.loads(RECORDED.read_text(encoding="utf-8"))["job"]["jobs"][0]["job_id"]
    left = iter(range(pods))

    async def worker() -> None:
        for _ in left:
            await slurm.allocate(EXTERNAL)
            await slurm.job(job_id)
            await slurm.job_states()
            await slurm.job(job_id)
            await slurm.cancel(job_id)

    await asyncio.gather(*(worker() for _ in range(CONCURRENT)))


async def cpu_ms(slurm: SlurmClient, pods: int) -> float:
    """Return milliseconds of CPU per Pod."""
    gc.collect()
    began = time.process_time()
    await lives(slurm, pods)
    return 1000 * (time.process_time() - began) / pods


async def measure(port: int, pairs: int, pods: int) -> list[tuple[float, float]]:
    """Return milliseconds of CPU per Pod, of the hand-written client and of aiohttp, for each pair."""
    found: list[tuple[float, float]] = []
    async with AsyncExitStack() as stack:
        written = await stack.enter_async_context(client(port, by_aiohttp=False))
        library = await stack.enter_async_context(client(port, by_aiohttp=True))
        for slurm in (written, library):
            await cpu_ms(slurm, pods // 4)
        for pair in range(pairs):
            first, second = (written, library) if pair % 2 == 0 else (library, written)
            one, other = await cpu_ms(first, pods), await cpu_ms(second, pods)
            found.append((one, other) if first is written else (other, one))
            print(f"pair {pair + 1}: {found[-1][0]:.2f} ms, aiohttp {found[-1][1]:.2f} ms", file=sys.stderr)
    return found


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, and the ends of its 95 % bootstrap interval."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return statistics.median(values), medians[RESAMPLES * 25 // 1000], medians[RESAMPLES * 975 // 1000]


def run(pairs: int, pods: int) -> dict[str, Any]:
    """Measure, and return what is written down."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    try:
        found = uvloop.run(measure(here.recv(), pairs, pods))
    finally:
        server.kill()
        server.join()
    pod_ms = json.loads((RESULTS / "cost.json").read_text(encoding="utf-8"))["at_once"]["cpu_ms_per_pod"]
    more = interval([library - written for written, library in found])
    return {
        "what": f"CPU of the requests to slurmrestd of one Pod's life ({LIFE}), {pairs} pairs of {pods} Pods",
        "written_ms": interval([written for written, _ in found]),
        "aiohttp_ms": interval([library for _, library in found]),
        "ratio": interval([library / written for written, library in found]),
        "more_ms_per_life": more,
        "more_ms_per_request": [value / LIFE for value in more],
        "pod_placed_at_once_ms": pod_ms,
        "placement_share_of_placed_pod": [value * PLACEMENT / LIFE / pod_ms for value in more],
        "pairs": found,
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="Compare the HTTP client of slurmclient with aiohttp.")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--pods", type=int, default=PODS)
    given = parser.parse_args()
    result = run(given.pairs, given.pods)
    for name, value in result.items():
        if name != "pairs":
            print(f"{name}: {value}")
    print(write("http_clients", result))


if __name__ == "__main__":
    main()
