"""Every version of objects of a real API server, of several kinds in the order of their writes."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Sequence
from http.client import HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

from lab.errors import LabError
from lab.kube import Kubernetes
from lab.probe import request


class ObjectHistory:
    """Read what has changed since the last time. It starts with what there is."""

    def __init__(self, kube: Kubernetes, paths: Sequence[str]) -> None:
        self._kube = kube
        self._since = {path: version_of(kube, path) for path in paths}
        self._ahead: list[tuple[int, dict[str, Any]]] = []
        """Changes that are known of one kind, while older ones of another may not be."""

    def read(self) -> list[dict[str, Any]]:
        """The changes since the last call, `type` and `object` each; takes a second for each kind.

        Only those from before the call, of which every kind's watch has shown its own by its end.
        """
        until = int(version_of(self._kube, next(iter(self._since))))
        for path, since in self._since.items():
            query = urlencode({"watch": "true", "resourceVersion": since, "timeoutSeconds": 1})
            headers = {"Authorization": f"Bearer {self._kube.token()}"}
            url = f"{self._kube.url}{path}?{query}"
            _, answer = request("GET", url, headers=headers, ca_file=self._kube.ca_file)
            for line in answer.splitlines():
                change = json.loads(line)
                if change["type"] == "ERROR":
                    raise LabError(f"the watch of {path} ended: {change['object']}")
                version = change["object"]["metadata"]["resourceVersion"]
                self._since[path] = version
                self._ahead.append((int(version), change))
        self._ahead.sort(key=lambda one: one[0])
        found = [change for version, change in self._ahead if version <= until]
        del self._ahead[: len(found)]
        return found


def version_of(kube: Kubernetes, path: str) -> str:
    """The resource version of a list."""
    version: str = kube.api("GET", f"{path}?limit=1")[1]["metadata"]["resourceVersion"]
    return version


def stream(kube: Kubernetes, path: str, seconds: int) -> Iterator[dict[str, Any]]:
    """Changes as they happen, for so long."""
    parts = urlsplit(kube.url)
    context = ssl.create_default_context(cafile=str(kube.ca_file))
    connection = HTTPSConnection(parts.netloc, context=context, timeout=seconds + 30)
    try:
        query = urlencode({"watch": "true", "resourceVersion": version_of(kube, path), "timeoutSeconds": seconds})
        connection.request("GET", f"{path}?{query}", headers={"Authorization": f"Bearer {kube.token()}"})
        for line in connection.getresponse():
            yield json.loads(line)
    finally:
        connection.close()
