"""Read the leader's `/debug`, if it can be reached.

It listens on the loopback interface of its Pod unless the site configures otherwise (`observability.debugBind`), and
has no authentication. So it is reached as `kubectl port-forward` would: through the API server and kubelet. A user
without that permission may be allowed to use the API server's proxy for Pods, which needs a `debugBind` on every
interface.
"""

from __future__ import annotations

import http
import http.client
import json
import urllib.parse
from typing import Any

from kubectl_slurm.api import Api, Away, NotAllowed, NotThere
from kubectl_slurm.flags import Common
from kubectl_slurm.leader import leader_of

Json = dict[str, Any]

WITHIN_S = 5.0


class Unreached(Exception):
    """`/debug` cannot be asked; the text says why and what would help."""


class Debug:
    """Asks the leader."""

    def __init__(self, api: Api, given: Common) -> None:
        self._api = api
        self._given = given
        self._url = given.debug_url.rstrip("/")
        self._leader: str | None = None
        self._unreached: Unreached | None = None
        """Asked once: the next question would wait as long."""

    def get(self, path: str) -> Json:
        """Return the answer to `/debug/PATH`. Raises Unreached."""
        found = self.find(path)
        if found is None:
            raise Unreached(_without(path))
        return found

    def find(self, path: str) -> Json | None:
        """Return the same; `None`: the extender has nothing there."""
        found = self._get(path)
        if found is not None and not isinstance(found, dict):
            raise Unreached(_another_version(path, found))
        return found

    def items(self, path: str) -> list[Json]:
        """Return the same where the answer is a list of objects."""
        found = self._get(path)
        if found is None:
            raise Unreached(_without(path))
        if not isinstance(found, list):
            raise Unreached(_another_version(path, found))
        return objects(found)

    def _get(self, path: str) -> Any:
        if self._unreached is not None:
            raise self._unreached
        try:
            status, body = self._by_url(path) if self._url else self._through_the_api_server(path)
            if status == http.HTTPStatus.NOT_FOUND:
                return None
            if status != http.HTTPStatus.OK:
                text = body[:200].decode(errors="replace")
                raise Unreached(f"/debug/{path} of the extender answers {status}: {text}")
            return json.loads(body)
        except (ValueError, RecursionError):
            self._unreached = Unreached(f"/debug/{path} of the extender does not answer in JSON")
        except Unreached as error:
            self._unreached = error
        raise self._unreached

    def _by_url(self, path: str) -> tuple[int, bytes]:
        try:
            parts = urllib.parse.urlsplit(self._url)
            port = parts.port
        except ValueError:
            parts, port = urllib.parse.urlsplit(""), None
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise Unreached(f"--debug-url {self._url}: it must read http://HOST:PORT or https://HOST:PORT")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        try:
            connection = kind(parts.hostname, port, timeout=WITHIN_S)
            try:
                connection.request("GET", f"{parts.path}/debug/{path}")
                answer = connection.getresponse()
                return answer.status, answer.read()
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise Unreached(f"{self._url}/debug/{path}: {error}") from error

    def _through_the_api_server(self, path: str) -> tuple[int, bytes]:
        if self._leader is None:
            try:
                self._leader = leader_of(self._api, self._given)
            except Away as error:
                raise Unreached(str(error)) from error
        leader, namespace, port = self._leader, self._given.extender_namespace, self._given.debug_port
        if not leader:
            raise Unreached(
                f"which Pod of the extender leads cannot be read in namespace {namespace} "
                "(--extender-namespace, --lease)"
            )
        try:
            return self._api.by_port(namespace, leader, port, f"/debug/{path}", within_s=WITHIN_S)
        except NotThere as error:
            raise Unreached(
                f"/debug of Pod {namespace}/{leader} cannot be reached at its port {port}: {error}"
            ) from error
        except (NotAllowed, Away) as error:
            answer = self._by_proxy(leader, path)
            if answer is not None:
                return answer
            what = "may not be asked" if isinstance(error, NotAllowed) else "cannot be asked"
            raise Unreached(
                f"/debug of Pod {namespace}/{leader} {what} (the Role slurm-extender-debug allows it): {error}"
            ) from error

    def _by_proxy(self, leader: str, path: str) -> tuple[int, bytes] | None:
        where = f"/api/v1/namespaces/{self._given.extender_namespace}/pods/{leader}:{self._given.debug_port}/proxy"
        try:
            return self._api.raw(f"{where}/debug/{path}", within_s=WITHIN_S)
        except (NotAllowed, Away):
            return None
        except NotThere as error:
            return None if f'pods "{leader}" not found' in str(error) else (http.HTTPStatus.NOT_FOUND, b"")


def objects(found: Any) -> list[Json]:
    """Return the objects of a list; nothing if it is no list. Additions of a newer extender are ignored."""
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _without(path: str) -> str:
    return f"the extender has no /debug/{path}: check that it has the same version as this program"


def _another_version(path: str, found: object) -> str:
    return (
        f"/debug/{path} of the extender answers {type(found).__name__}: "
        "check that it has the same version as this program"
    )
