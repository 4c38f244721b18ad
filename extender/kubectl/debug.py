"""What the leader's `/debug` says, where it can be reached.

It listens on the loopback interface of the Pod unless the site says otherwise (`observability.debugBind`). So it is
reached through the API server's proxy where it is on every interface, or by `--debug-url` and a port that is forwarded.
"""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Callable
from typing import Any

from extender.kubectl.api import Api, Away, NotAllowed, NotThere

PORT = 8083
"""Of `observability.debugBind` by default."""

WITHIN_S = 5.0


class Unreached(Exception):
    """`/debug` cannot be asked; the text says why and what would help."""


class Debug:
    """Asks the leader. `leader` gives the name of its Pod, "" where nobody knows; without `url` the proxy is tried."""

    def __init__(self, api: Api, namespace: str, leader: Callable[[], str], url: str = "") -> None:
        self._api = api
        self._namespace = namespace
        self._leader = leader
        self._url = url.rstrip("/")
        self._unreached: Unreached | None = None
        """Asked once: the next question would wait as long."""

    def get(self, path: str) -> Any:
        """The answer to `/debug/PATH`; `None`: it knows of nothing there. Raises Unreached."""
        if self._unreached is not None:
            raise self._unreached
        try:
            return self._by_url(path) if self._url else self._by_proxy(path)
        except Unreached as error:
            self._unreached = error
            raise

    def _by_url(self, path: str) -> Any:
        parts = urllib.parse.urlsplit(self._url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise Unreached(f"--debug-url {self._url}: it must read http://HOST:PORT or https://HOST:PORT")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        try:
            connection = kind(parts.hostname, parts.port, timeout=WITHIN_S)
            try:
                connection.request("GET", f"{parts.path}/debug/{path}")
                answer = connection.getresponse()
                body = answer.read()
            finally:
                connection.close()
            if answer.status == http.HTTPStatus.NOT_FOUND:
                return None
            if answer.status != http.HTTPStatus.OK:
                raise Unreached(f"{self._url}/debug/{path}: it answers {answer.status}")
            return json.loads(body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreached(f"{self._url}/debug/{path}: {error}") from error

    def _by_proxy(self, path: str) -> Any:
        leader = self._leader()
        if not leader:
            raise Unreached("which Pod of the extender leads is not known; --debug-url says where its /debug is")
        through = f"/api/v1/namespaces/{self._namespace}/pods/{leader}:{PORT}/proxy/debug/{path}"
        try:
            return self._api.get(through)
        except NotThere as error:
            if f'pods "{leader}" not found' in str(error):
                raise Unreached(f"{leader}, which leads, is no Pod in {self._namespace}") from error
            return None
        except (NotAllowed, Away) as error:
            text = (
                f"the leader's /debug is not reached through the API server ({error}); "
                f"`kubectl port-forward -n {self._namespace} pod/{leader} {PORT}` and "
                f"`--debug-url http://127.0.0.1:{PORT}` reach it where it listens on its loopback interface only"
            )
            raise Unreached(text) from error
