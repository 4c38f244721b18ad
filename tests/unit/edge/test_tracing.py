"""Where traces are sent, and that nothing of them is there where nobody asked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from extender.config.load import parse
from extender.observability import tracing
from extender.observability.tracing import SERVICE, Exporter

GOOD = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: hush}\n"
SAID = GOOD + "observability: {tracesEndpoint: 'http://collector:4318'}\n"

GENEROUS_S = 300
"""For an answer, and for a process with all that it imports, on a machine that has other work."""


class Receiver(ThreadingHTTPServer):
    """An OTLP endpoint on the loopback interface."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.bodies.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def test_spans_arrive_at_the_endpoint_at_the_latest_when_the_process_ends(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "CLOSE_WITHIN_S", GENEROUS_S)
    exporter = Exporter(f"http://127.0.0.1:{receiver.server_port}", "replica-1")
    exporter.tracer.start_span("place", attributes={"k8s.pod.name": "default/web"}).end()
    exporter.close()
    [(path, body)] = receiver.bodies
    assert path == "/v1/traces"
    [about] = ExportTraceServiceRequest.FromString(body).resource_spans
    named = {one.key: one.value.string_value for one in about.resource.attributes}
    assert (named["service.name"], named["service.instance.id"]) == (SERVICE, "replica-1")
    assert [span.name for scope in about.scope_spans for span in scope.spans] == ["place"]


HELD_UP = """
import socket, time
from extender.observability.tracing import Exporter
silent = socket.create_server(("127.0.0.1", 0))
exporter = Exporter(f"http://127.0.0.1:{silent.getsockname()[1]}", "replica-1")
for _ in range(3000):
    exporter.tracer.start_span("place").end()
began = time.monotonic()
exporter.close()
print(time.monotonic() - began)
"""
ENDS_WITHIN_S = 25.0
"""The package alone waits for 30 s."""


def test_an_endpoint_that_does_not_answer_does_not_hold_up_the_end_and_bounds_what_is_kept() -> None:
    # In a process of its own: what still tries to send, for as long as the variable says, ends with it.
    done = subprocess.run(
        [sys.executable, "-c", HELD_UP],
        env=os.environ | {"OTEL_EXPORTER_OTLP_TIMEOUT": "3600"},
        check=True,
        capture_output=True,
        text=True,
        timeout=GENEROUS_S,
    )
    assert float(done.stdout) < ENDS_WITHIN_S


@pytest.mark.parametrize(
    ("text", "environ", "expected"),
    [
        (GOOD, {}, False),
        (SAID, {}, True),
        (GOOD, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        (GOOD, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        (SAID, {"OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_traces_are_wanted_where_an_endpoint_is_named(text: str, environ: dict[str, str], expected: bool) -> None:
    assert parse(text, "c.yaml").observability.exports_traces(environ) is expected


def test_without_traces_their_libraries_are_not_loaded() -> None:
    check = (
        "import sys, extender.server.process; "
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
