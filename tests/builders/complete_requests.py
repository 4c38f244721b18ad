"""Complete, valid requests whose answers could cost much: each is answered, and none proves anything."""

from __future__ import annotations

import json

_JSON = b"Content-Type: application/json\r\n"
_TOKEN = b"Authorization: Bearer 1.u1.00\r\n"


def _request(method: bytes, path: bytes, headers: bytes = b"", body: bytes = b"") -> bytes:
    head = b"%b %b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n%bContent-Length: %d\r\n\r\n"
    return head % (method, path, headers, len(body)) + body


def _review() -> bytes:
    labels = {f"l{number}": "x" for number in range(200)}
    pod = {"metadata": {"name": "p", "uid": "u", "labels": labels}, "spec": {"schedulerName": "slurm"}}
    return json.dumps({"request": {"uid": "u", "operation": "CREATE", "namespace": "ns", "object": pod}}).encode()


def _invented() -> bytes:
    pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"schedulerName": "slurm"}}
    return json.dumps({"Pod": pod, "NodeNames": [f"n{number}" for number in range(1000)]}).encode()


COMPLETE = {
    "metrics": _request(b"GET", b"/metrics"),
    "readiness": _request(b"GET", b"/readyz?verbose"),
    "drain": _request(b"POST", b"/hooks/nodes/s1/drain", _TOKEN),
    "clear": _request(b"POST", b"/hooks/nodes/s1/clear?wait=60", _TOKEN),
    "started": _request(b"POST", b"/hooks/jobs/1/started", _TOKEN),
    "teardown": _request(b"POST", b"/hooks/jobs/1/teardown?wait=60", _TOKEN),
    "review": _request(b"POST", b"/admission/mutate", _JSON, _review()),
    "filter": _request(b"POST", b"/scheduler/filter", _JSON, _invented()),
}
