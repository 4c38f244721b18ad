"""Secrets and ConfigMaps that the extender's Deployment mounts: are they there, with the keys that are read?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from extender.doctor.finding import Finding, ok, unseen, wrong

CHECK = "mounts"


@dataclass(frozen=True, slots=True)
class Mount:
    """What is mounted at `folder`. `there` and `keys` are `None` where who asks may not see them."""

    deployment: str
    kind: str
    name: str
    folder: str
    there: bool | None = None
    keys: frozenset[str] | None = None
    optional: bool = False


def mounts(given: Sequence[Mount] | None, paths: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """`paths` are the files that the configuration names, by key. `None`: no Deployment could be looked at."""
    if given is None:
        yield unseen(
            CHECK,
            "the extender's Deployment could not be looked at",
            "run this as somebody who may read Deployments, Secrets and ConfigMaps there; a Pod that runs has all",
        )
        return
    bad = False
    for one in given:
        said = f"{one.kind} {one.name}, which {one.deployment} mounts at {one.folder},"
        if one.there is False and not one.optional:
            bad = True
            yield wrong(CHECK, f"{said} does not exist", "make it: until then its Pods stay in ContainerCreating")
        elif one.keys is not None and one.folder:
            for key, path in paths:
                file = path.removeprefix(one.folder.rstrip("/") + "/")
                if file != path and file.partition("/")[0] not in one.keys:
                    bad = True
                    has = ", ".join(sorted(one.keys)) or "none"
                    yield wrong(
                        CHECK, f"{said} has no key {file}, which {key} names; it has {has}", f"add {file}, or set {key}"
                    )
    hidden = sorted(f"{one.kind} {one.name}" for one in given if one.there is None)
    if hidden:
        yield unseen(CHECK, f"{', '.join(hidden)}: who asks may not read them", "`kubectl get` as an administrator")
    elif not bad:
        yield ok(CHECK, f"all {len(given)} are there")
