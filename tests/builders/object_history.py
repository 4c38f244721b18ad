"""Every version of objects of a real API server, of several kinds in the order of their writes."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Sequence
from http.client import HTTPSConnection
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from lab.clock import pause
from lab.errors import LabError
from lab.kube import Kubernetes

STREAM_S = 3600
QUIET_S = 5.0


class ObjectHistory:
    """Watch these lists, each in a thread, and return everything at the end: a watch may lag behind another."""

    def __init__(self, kube: Kubernetes, paths: Sequence[str]) -> None:
        self._kube = kube
        self._paths = tuple(paths)
        self._seen: list[tuple[int, dict[str, Any]]] = []
        self._faults: list[BaseException] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        for path in self._paths:
            since = version_of(self._kube, path)
            threading.Thread(target=self._watch, args=(path, since), name=f"watch {path}", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()

    def changes(self) -> list[dict[str, Any]]:
        """Return all changes, `type` and `object` each, once no watch has shown any for a while."""
        count = -1
        while count != len(self._seen):
            count = len(self._seen)
            pause(QUIET_S)
        if self._faults:
            raise LabError("a watch ended") from self._faults[0]
        return [change for _, change in sorted(self._seen, key=lambda one: one[0])]

    def _watch(self, path: str, since: str) -> None:
        try:
            for change in stream(self._kube, path, since=since):
                if self._stopped.is_set():
                    return
                with self._lock:
                    self._seen.append((int(change["object"]["metadata"]["resourceVersion"]), change))
            raise LabError(f"the API server ended the watch of {path}")
        except BaseException as error:
            self._faults.append(error)


def version_of(kube: Kubernetes, path: str) -> str:
    """Return the resource version of a list."""
    version: str = kube.api("GET", f"{path}?limit=1")[1]["metadata"]["resourceVersion"]
    return version


def stream(kube: Kubernetes, path: str, *, since: str) -> Iterator[dict[str, Any]]:
    """Yield changes as they happen, for an hour at most. Raises LabError for a rejected request."""
    parts = urlsplit(kube.url)
    context = ssl.create_default_context(cafile=str(kube.ca_file))
    connection = HTTPSConnection(parts.netloc, context=context, timeout=STREAM_S)
    try:
        query = urlencode({"watch": "true", "resourceVersion": since, "timeoutSeconds": STREAM_S})
        connection.request("GET", f"{path}?{query}", headers={"Authorization": f"Bearer {kube.token()}"})
        for line in connection.getresponse():
            change = json.loads(line)
            if change["type"] == "ERROR":
                raise LabError(f"the watch of {path} ended: {change['object']}")
            yield change
    finally:
        connection.close()
