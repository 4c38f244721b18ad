"""List what an image holds as CycloneDX 1.6.

These are the packages of the lock, by version, hashes and licence; the interpreter; and each program and library that
is copied from the system, by its SHA-256.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

_ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """One package of a lock. `hashes` are those of all files that pip may take for it."""

    name: str
    version: str
    hashes: tuple[str, ...]


def locked(text: str) -> list[LockedPackage]:
    """Return the packages of a lock that pip reads."""
    found = []
    for name, version, rest in _ENTRY.findall(text):
        found.append(LockedPackage(normal(name), version, tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", rest))))
    return found


def normal(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True, slots=True)
class System:
    """What an image holds besides its packages: an interpreter of this version, and programs and libraries by path."""

    python: str
    digests: Mapping[str, str]
    """The SHA-256 of each file."""


def system_in(root: Path, python: str, programs: Iterable[Path], without: Path) -> System:
    """Return what the root of an image holds outside of the folder `without`."""
    found = {
        f"/{path.relative_to(root).as_posix()}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in programs
        if not path.is_relative_to(without)
    }
    return System(python, found)


def sbom(
    version: str, lock: str, installed: Mapping[str, Distribution], system: System, *, created: str
) -> dict[str, Any]:
    """Return the document. Packages of the lock that are not installed (for another platform) are left out."""
    packages = [one for one in locked(lock) if one.name in installed]
    components = [_component(one, installed[one.name]) for one in packages] + list(_system_components(system))
    top = f"pkg:pypi/slurm-extender@{version}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, top + lock)}",
        "version": 1,
        "metadata": {
            "timestamp": created,
            "component": {
                "type": "application",
                "bom-ref": top,
                "name": "slurm-extender",
                "version": version,
                "purl": top,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": components,
        "dependencies": [{"ref": top, "dependsOn": [one["bom-ref"] for one in components]}],
    }


def installed_in(folders: Iterable[Path]) -> dict[str, Distribution]:
    """Return the distributions in these folders by their normal name."""
    found = distributions(path=[str(folder) for folder in folders])
    return {normal(one.metadata["Name"]): one for one in found}


def _system_components(system: System) -> Iterator[dict[str, Any]]:
    purl = f"pkg:generic/cpython@{system.python}"
    yield {"type": "platform", "bom-ref": purl, "name": "cpython", "version": system.python, "purl": purl}
    for path, digest in sorted(system.digests.items()):
        hashes = [{"alg": "SHA-256", "content": digest}]
        yield {"type": "file", "bom-ref": f"file:{path}", "name": path, "hashes": hashes}


def _component(package: LockedPackage, installed: Distribution) -> dict[str, Any]:
    purl = f"pkg:pypi/{package.name}@{package.version}"
    licence = (installed.metadata.get_all("License-Expression") or [""])[0]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "purl": purl,
        **({"licenses": [{"expression": licence}]} if licence else {}),
        "externalReferences": [
            {
                "type": "distribution",
                "url": purl,
                "hashes": [{"alg": "SHA-256", "content": one} for one in package.hashes],
            }
        ],
    }
