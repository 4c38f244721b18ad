"""The API server as a command asks it: one question after the other, and an error that a person can read."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from extender.kube.connection import Connection, CredentialsError, connect, connect_by
from extender.kube.errors import ApiError, ApiRefused, NotFound
from extender.kubectl.kubeconfig import Target

Json = dict[str, Any]

PAGE = "500"
"""Objects in one answer."""


class NotThere(Exception):
    """There is no such object."""


class NotAllowed(Exception):
    """This user may not do that."""


class Away(Exception):
    """The API server cannot be asked."""


class Api:
    """Answers as JSON. Use it as a context."""

    def __init__(self, to: Target, timeout_s: float) -> None:
        self._to = to
        self._timeout_s = timeout_s
        self._runner = asyncio.Runner()
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        try:
            self._connection = self._runner.run(self._connect())
        except CredentialsError as error:
            self._runner.close()
            raise Away(str(error)) from error
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._runner.run(self._connection.close())
        self._runner.close()

    @property
    def namespace(self) -> str:
        """Where a command looks that names no namespace."""
        return self._to.namespace

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Json:
        """One object, or one page. Raises NotThere, NotAllowed, Away."""
        return self._ask("GET", path, query=query)

    def items(self, path: str, query: Mapping[str, str] | None = None) -> list[Json]:
        """A whole list, page by page."""
        found: list[Json] = []
        more = ""
        while True:
            page = self.get(path, {**(query or {}), "limit": PAGE, **({"continue": more} if more else {})})
            found += page.get("items") or []
            more = (page.get("metadata") or {}).get("continue") or ""
            if not more:
                return found

    def patch(self, path: str, body: Any, content_type: str) -> Json:
        """Change one object. Raises as `get`."""
        return self._ask("PATCH", path, body=body, content_type=content_type)

    def _ask(self, method: str, path: str, **more: Any) -> Json:
        if self._connection is None:
            raise RuntimeError("ask within the context")
        try:
            answer = self._runner.run(self._connection.request(method, path, timeout_s=self._timeout_s, **more))
        except NotFound as error:
            raise NotThere(str(error)) from error
        except ApiRefused as error:
            raise NotAllowed(str(error)) from error
        except ApiError as error:
            raise Away(str(error)) from error
        found: Json = json.loads(answer.body)
        return found

    async def _connect(self) -> Connection:
        if self._to.config is None:
            return await connect(environ=os.environ, more_headers=self._to.headers)
        return await connect_by(self._to.config, more_headers=self._to.headers)
