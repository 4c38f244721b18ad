"""One HTTP request on loopback, for readiness checks and the lab's own writes; the standard library is enough."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.connections import KEPT


def request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: object = None,
    ca_file: Path | None = None,
    timeout_s: float = 30,
) -> tuple[int, bytes]:
    """Send one request (``body`` as JSON); return status and body, whatever the status; raises OSError without one."""
    data = None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **(headers or {})} if data is not None else dict(headers or {})
    try:
        if ca_file is not None:
            return KEPT.exchange(method, url, headers=sent, data=data, ca_file=ca_file, timeout_s=timeout_s)
        wanted = urllib.request.Request(url, data=data, method=method, headers=sent)
        # An empty ProxyHandler: a proxy in the environment has no business on loopback.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(wanted, timeout=timeout_s) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except http.client.HTTPException as error:
        raise OSError(f"{method} {url}: {error!r}") from error


def answers_ok(url: str, *, headers: Mapping[str, str] | None = None, ca_file: Path | None = None) -> bool:
    """Return whether a GET is answered with 200."""
    return request("GET", url, headers=headers, ca_file=ca_file, timeout_s=5)[0] == 200


def decoded(body: bytes) -> Any:
    """Return the JSON value of an answer, or its text if it is no JSON, as of a path that is not served."""
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
