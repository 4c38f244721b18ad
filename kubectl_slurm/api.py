"""Send the requests of a command to the API server, one after the other, with readable errors.

The client of Kubernetes is imported at the first request: the import takes longer than everything else.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kubectl_slurm.kubeconfig import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extender.kube.connection import ApiConnection

Json = dict[str, Any]

PAGE = "500"
"""Objects in one answer."""

MERGE_PATCH = "application/merge-patch+json"
HOLDS_ALL = "the ClusterRole slurm-extender-view has the permissions"


class NotThere(Exception):
    """There is no such object."""


class NotAllowed(Exception):
    """This user may not do that."""


class Away(Exception):
    """The API server cannot be asked, or did not do as asked for another reason."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A port of this machine. `follow` names another Pod for its next connections."""

    port: int
    follow: Callable[[str], None]


class Api:
    """Answers as JSON. Use it as a context."""

    def __init__(self, to: Target, timeout_s: float) -> None:
        self._to = to
        self._timeout_s = timeout_s
        self._runner = asyncio.Runner()
        self._connection: ApiConnection | None = None
        self.now: float | None = None
        """The API server's clock as of the last answer, in seconds since 1970; `None`: no answer yet."""

    def __enter__(self) -> Self:
        from extender.kube.connection import CredentialsError  # noqa: PLC0415 - see above

        try:
            self._connection = self._runner.run(self._connect())
        except (CredentialsError, OSError, ValueError) as error:  # files are read, certificates among them
            self._runner.close()
            raise Away(f"{self._to.source}: {error}") from error
        self._connection.on_answer(self._answered)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._runner.run(self._connection.close())
        self._runner.close()

    @property
    def namespace(self) -> str:
        """Return the default namespace."""
        return self._to.namespace

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Json:
        """Return one object, or one page. Raises NotThere, NotAllowed, Away."""
        return self._send("GET", path, query=query)

    def raw(self, path: str, *, within_s: float) -> tuple[int, bytes]:
        """Return status and body of a good answer, whatever it is. Raises as `get`."""
        with _as_people_say():
            answer = self._runner.run(self._open().request("GET", path, timeout_s=within_s))
        return answer.status, answer.body

    def items(self, path: str, query: Mapping[str, str] | None = None) -> list[Json]:
        """Return a whole list, page by page; begin once more where the first pages are too old for the rest."""
        try:
            return self._pages(path, query)
        except _TooOld:
            return self._pages(path, query)

    def merge(self, path: str, body: Json, query: Mapping[str, str] | None = None) -> Json:
        """Change one object by a merge patch. Raises as `get`."""
        return self._send("PATCH", path, body=body, content_type=MERGE_PATCH, query=query)

    def create(self, path: str, body: Json) -> Json:
        """Create one object. Raises as `get`."""
        return self._send("POST", path, body=body)

    def delete(self, path: str, options: Json) -> Json:
        """Delete one object. Raises as `get`."""
        return self._send("DELETE", path, body=options)

    def by_port(self, namespace: str, pod: str, port: int, path: str, *, within_s: float) -> tuple[int, bytes]:
        """Ask a port of a Pod, also on its loopback interface. Raises as `get`; NotThere where nothing answers."""
        from extender.kube.port_forward import NotConnected, PodPort, get  # noqa: PLC0415 - see above

        with _as_people_say():
            try:
                return self._runner.run(get(self._open(), PodPort(namespace, pod, port), path, within_s=within_s))
            except NotConnected as error:
                raise NotThere(str(error)) from error

    @contextmanager
    def listener(
        self, namespace: str, pod: str, pod_port: int, port: int, report: Callable[[str], None]
    ) -> Iterator[Listener]:
        """Listen on this machine's loopback interface and forward to a port of a Pod, while `wait` or another request
        runs. `port` 0: any free one. Raises Away.
        """
        from extender.kube.port_forward import PodPort  # noqa: PLC0415 - see above
        from extender.kube.port_listener import LOOPBACK, PortListener  # noqa: PLC0415 - see above

        listener = PortListener(self._open(), PodPort(namespace, pod, pod_port), report)
        try:
            bound = self._runner.run(listener.open(port))
        except OSError as error:
            raise Away(f"cannot listen at {LOOPBACK}:{port}: {error}; choose another --port") from error

        def follow(name: str) -> None:
            listener.pod_port = PodPort(namespace, name, pod_port)

        try:
            yield Listener(bound, follow)
        finally:
            self._runner.run(listener.close())

    def wait(self, seconds: float) -> None:
        """Serve what `listener` opened."""
        self._runner.run(asyncio.sleep(seconds))

    def _pages(self, path: str, query: Mapping[str, str] | None) -> list[Json]:
        found: list[Json] = []
        more = ""
        while True:
            page = self.get(path, {**(query or {}), "limit": PAGE, **({"continue": more} if more else {})})
            items, meta = page.get("items") or [], page.get("metadata") or {}
            if not isinstance(items, list) or not isinstance(meta, dict) or not all(isinstance(x, dict) for x in items):
                raise Away(f"GET {path}: the answer is no list of objects; is {self._open().url} an API server?")
            found += items
            more = str(meta.get("continue") or "")
            if not more:
                return found

    def _send(self, method: str, path: str, **more: Any) -> Json:
        with _as_people_say():
            answer = self._runner.run(self._open().request(method, path, timeout_s=self._timeout_s, **more))
        try:
            found = json.loads(answer.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Away(f"{method} {path}: the answer is no JSON object; is {self._open().url} an API server?")
        return found

    def _open(self) -> ApiConnection:
        if self._connection is None:
            raise RuntimeError("ask within the context")
        return self._connection

    def _answered(self, headers: Mapping[str, str]) -> None:
        with suppress(LookupError, ValueError):
            self.now = parsedate_to_datetime(headers["date"]).timestamp()

    async def _connect(self) -> ApiConnection:
        from extender.kube.connection import connect, connect_by  # noqa: PLC0415 - see above

        if self._to.config is None:
            return await connect(environ=os.environ, more_headers=self._to.headers)
        return await connect_by(self._to.config, more_headers=self._to.headers)


class _TooOld(Away):
    """The page after those that were read is of a list that the API server has no more."""


@contextmanager
def _as_people_say() -> Iterator[None]:
    from extender.kube.errors import ApiError, Forbidden, Gone, NotFound, Unauthorized  # noqa: PLC0415 - see above

    try:
        yield
    except NotFound as error:
        raise NotThere(str(error)) from error
    except Unauthorized as error:
        raise NotAllowed(f"{error}; the API server does not know these credentials") from error
    except Forbidden as error:
        raise NotAllowed(str(error)) from error
    except Gone as error:
        raise _TooOld(str(error)) from error
    except ApiError as error:
        raise Away(str(error)) from error
