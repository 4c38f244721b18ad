"""Build `kubectl slurm` as one file for one platform, and its manifest for krew: `python -m image.plugin --out dist`.

The file holds what the plugin imports: none of the server's packages, and none of the generated classes of the
kubernetes package. It needs a Python of the same minor version on the user's machine. The same input gives the same
bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import io
import platform as os_platform
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

from extender import __version__
from image import oci
from image.plugin_start import INSIDE

TOP = Path(__file__).parents[1]
OWN = ("extender", "kubectl_slurm")
ROOTS = ("aiohttp", "click", "kubernetes", "multidict", "pydantic-core", "pydantic", "PyYAML")
"""Distributions that the plugin imports, by way of `extender/kube/connection.py`."""

LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|tests?|docs|[^/]+\.dist-info|bin)/|\.(pyi|pyx|pxd|pyc|c|h|typed)$"
    r"|^kubernetes/(aio/)?(client/(api|models)|e2e_test)/(?!__init__\.py$)"
)
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file: the earliest that the format has."""

PROGRAM = "kubectl-slurm"
COMPLETION = "kubectl_complete-slurm"
PLATFORMS = {"linux": "linux", "darwin": "darwin", "win32": "windows"}
MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

KREW = """\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: slurm
spec:
  version: v{version}
  homepage: {site}
  shortDescription: Explain why Pods that Slurm places wait
  description: |
    Shows Pods that slurm-extender places by Slurm: why they wait, their Slurm jobs, the queue by partition, free GPUs,
    fair shares, and the nodes of both sides.
  caveats: Needs Python {python} on this machine.
  platforms:
    - selector: {{matchLabels: {{os: {os}, arch: {arch}}}}}
      uri: {site}/{archive}
      sha256: {sha256}
      bin: {program}
      files: [{{from: {program}, to: .}}, {{from: {completion}, to: .}}, {{from: LICENSE, to: .}}]
"""


def distributions(roots: Iterable[str]) -> list[importlib.metadata.Distribution]:
    """Return these distributions and all that they require, by name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(roots)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        found[name] = importlib.metadata.distribution(name)
        for text in found[name].requires or ():
            needs = Requirement(text)
            if needs.marker is None or needs.marker.evaluate({"extra": ""}):
                waiting.append(needs.name)
    return [found[name] for name in sorted(found)]


def files() -> Iterator[tuple[str, bytes]]:
    """Yield every file of the packages, by its name in the archive."""
    for one in distributions(ROOTS):
        for path in one.files or ():
            name = path.as_posix()
            if not name.startswith("..") and not LEFT_OUT.search(name):
                yield name, Path(str(path.locate())).read_bytes()
    for package in OWN:
        for source in sorted((TOP / package).rglob("*")):
            name = source.relative_to(TOP).as_posix()
            if source.is_file() and not LEFT_OUT.search(name):
                yield name, source.read_bytes()


def archive() -> bytes:
    """Return the program: a zip archive behind a line that names the interpreter."""
    found = dict(sorted(files()))
    digest = hashlib.sha256()
    for name, content in found.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    start = (TOP / "image/plugin_start.py").read_text(encoding="utf-8")
    start = start.replace('DIGEST = "unbuilt"', f'DIGEST = "{digest.hexdigest()[:32]}"')
    written = io.BytesIO()
    written.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
        zipped.writestr(_entry("__main__.py"), start)
        for name, content in found.items():
            zipped.writestr(_entry(f"{INSIDE}{name}"), content)
    return written.getvalue()


def build(out: Path, version: str, site: str) -> list[Path]:
    """Write the program, the archive for krew and its manifest into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    program = archive()
    system, machine = platform()
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = f"{PROGRAM}-{version}-{system}-{machine}-python{python}"
    archived = {PROGRAM: program, COMPLETION: program, "LICENSE": (TOP / "LICENSE").read_bytes()}
    packed = oci.compressed(oci.files_in_tar(archived, 0, 0o755))
    krew = KREW.format(
        version=version,
        site=site.rstrip("/"),
        python=python,
        os=system,
        arch=machine,
        archive=f"{name}.tar.gz",
        sha256=hashlib.sha256(packed).hexdigest(),
        program=PROGRAM,
        completion=COMPLETION,
    )
    written = {name: program, f"{name}.tar.gz": packed, "krew-slurm.yaml": krew.encode()}
    for file, content in written.items():
        (out / file).write_bytes(content)
    (out / name).chmod(0o755)
    return [out / file for file in written]


def platform() -> tuple[str, str]:
    """Return this system and machine by krew's words."""
    machine = os_platform.machine().lower()
    return PLATFORMS.get(sys.platform, sys.platform), MACHINES.get(machine, machine)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    return entry


def main() -> None:
    """Build it."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--out", type=Path, default=TOP / "dist")
    words.add_argument("--site", default="https://example.org/slurm-extender", help="where the archive will be served")
    given = words.parse_args()
    for path in build(given.out, __version__, given.site):
        print(path)


if __name__ == "__main__":
    main()
