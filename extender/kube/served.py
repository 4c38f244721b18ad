"""Find the version of a kind that the API server serves: kinds of custom resources come and go while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from extender.kube.connection import ApiConnection
from extender.kube.errors import ApiUnavailable, NotFound
from extender.kube.wire.fields import MalformedObject, parsed
from extender.kube.wire.stream import Refusal

DISCOVERY_TIMEOUT_S = 10.0

MOST_KINDS = 1000
"""Kinds of one API version that are looked through."""


@dataclass(slots=True)
class ServedKind:
    """A kind whose version is looked up. `versions`: those that can be read, the one to prefer first."""

    connection: ApiConnection
    group: str
    versions: Sequence[str]
    plural: str
    version: str = ""
    """The one that was found last; "": none yet."""

    async def path(self) -> str:
        """Return the path of all objects of the kind. Raises ApiError; `NotFound` if no such version is served."""
        for version in self.versions:
            root = f"/apis/{self.group}/{version}"
            if self.plural in await self._kinds(root):
                self.version = version
                return f"{root}/{self.plural}"
        text = f"the API server does not serve {self.plural} of {self.group} {', '.join(self.versions)}"
        raise NotFound(f"GET /apis/{self.group}", Refusal(404, "NotFound", text))

    async def _kinds(self, root: str) -> set[str]:
        try:
            answer = await self.connection.request("GET", root, timeout_s=DISCOVERY_TIMEOUT_S)
        except NotFound:
            return set()
        try:
            return {one.text("name") for one in parsed("list of kinds", answer.body).each("resources", MOST_KINDS)}
        except MalformedObject as error:
            raise ApiUnavailable(f"GET {root}: {error}") from error
