"""Does the Service exist by which kube-scheduler calls us?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from extender.doctor.checks.profile import CHECK, ExpectedProfile, ours
from extender.doctor.finding import Finding, wrong

_NAME = re.compile(r"([a-z0-9-]+)\.([a-z0-9-]+)\.svc(?:\..+)?")


@dataclass(frozen=True, slots=True)
class Called:
    """A Service by which kube-scheduler calls, and the port of it."""

    where: str
    namespace: str
    name: str
    port: int
    ports: Sequence[int] | None = None
    """Those that it has; `None`: it does not exist."""


def called(document: Mapping[str, Any], where: str, wanted: ExpectedProfile) -> Called | None:
    """The Service that stands in one document; `None` where it calls by another name than a Service's."""
    extender = ours(document, wanted)
    try:
        parts = urlsplit(str(extender["urlPrefix"])) if extender is not None else urlsplit("")
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    found = _NAME.fullmatch(parts.hostname or "")
    return Called(where, found[2], found[1], port) if found else None


def service(given: Called) -> Iterator[Finding]:
    """A line where it leads nowhere."""
    said = f"{given.where}: urlPrefix leads to the Service {given.namespace}/{given.name}"
    if given.ports is None:
        yield wrong(
            CHECK,
            f"{said}, which does not exist",
            "write the extender's Service and its namespace there; an overlay's namespace does not reach this file "
            "(manifests/README.md)",
        )
    elif given.port not in given.ports:
        has = ", ".join(str(port) for port in given.ports) or "none"
        yield wrong(CHECK, f"{said}, which has no port {given.port}; it has {has}", "write one of those there")
