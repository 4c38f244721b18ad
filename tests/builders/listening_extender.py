"""An extender that rejects every Pod and remembers which nodes it was shown: what kube-scheduler's own filters left."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REASON = "only listening"


class Listening:
    """Hold the received requests: the nodes by the UID of the Pod, and the number of calls."""

    def __init__(self) -> None:
        self.shown: dict[str, frozenset[str]] = {}
        self.calls: Counter[str] = Counter()
        self.url = ""

    def answer_filter(self, body: bytes) -> bytes:
        """Answer one call of `/filter`."""
        arguments = json.loads(body)
        names = arguments["NodeNames"] or []
        uid = arguments["Pod"]["metadata"]["uid"]
        self.shown[uid] = frozenset(names)
        self.calls[uid] += 1
        answer = {"NodeNames": [], "FailedNodes": {}, "FailedAndUnresolvableNodes": {names[0]: REASON}, "Error": ""}
        return json.dumps(answer).encode()


@contextmanager
def listening() -> Iterator[Listening]:
    """Run one on loopback, until the end of the block."""
    ears = Listening()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body leave together: kube-scheduler waits 40 ms for a second segment

        def do_POST(self) -> None:
            said = ears.answer_filter(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            """Log nothing: the test reports what it finds."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    ears.url = f"http://127.0.0.1:{server.server_port}/scheduler"
    thread = threading.Thread(target=server.serve_forever, name="listening extender")
    thread.start()
    try:
        yield ears
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
