"""The API server: is it reached, is it of a version that is supported, and who are we there?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from extender.doctor.finding import Finding, ok, warning, wrong

CHECK = "kubernetes"

OLDEST, NEWEST = (1, 32), (1, 36)
"""README.md says what the oldest one needs; the newest is what this version was run with."""


@dataclass(frozen=True, slots=True)
class Server:
    """What `GET /version` said, and as whom it was asked. `error`: nothing, and why."""

    url: str = ""
    version: str = ""
    user: str = ""
    error: str = ""


def server(given: Server) -> Iterator[Finding]:
    """One line."""
    if given.error:
        yield wrong(
            CHECK,
            given.error,
            "kubernetes.kubeconfig says how it is reached; in a Pod leave it out, and the ServiceAccount is used",
        )
        return
    found = re.match(r"v?(\d+)\.(\d+)", given.version)
    said = (
        f"{given.url}: {given.version or 'a version that it does not tell'}{f', as {given.user}' if given.user else ''}"
    )
    if found is None:
        yield warning(CHECK, said, "`kubectl version` tells which it is; 1.32 to 1.36 are supported")
        return
    release = (int(found[1]), int(found[2]))
    if release < OLDEST:
        yield wrong(CHECK, said, "Kubernetes 1.32 or newer is needed")
    elif release > NEWEST:
        yield warning(CHECK, f"{said}: newer than what this version was tried with", "look for a newer version of this")
    elif release < (1, 33):
        yield ok(CHECK, f"{said}; its kube-scheduler needs components/kubernetes-1.32 of the manifests")
    else:
        yield ok(CHECK, said)
