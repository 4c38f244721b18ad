"""Make everything that a release publishes, in one folder: `python -m image.release --out dist`. Nothing is pushed.

* an OCI archive of the image, put together from this machine's Python and the packages of the lock
  (`image/assemble.py`); the Dockerfile gives its settings, and builds the same on the official base where a container
  engine and a registry are at hand,
* the chart, as `helm package` writes it and as an OCI archive,
* the wheels of `slurm-extender` and `kubectl-slurm`, and `kubectl slurm` as one file,
* a list of what the image holds (CycloneDX), and the checksums of all files.

The same commit and the same Python give the same bytes: every time is SOURCE_DATE_EPOCH, by default that of the commit.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import yaml

from extender import __version__
from image import oci, plugin
from image.assemble import assemble, elf_files
from image.sbom import installed_in, sbom, system_in

TOP = Path(__file__).parents[1]
INSIDE = Path("/opt/slurm-extender")
"""Where the packages are in the image, as in the Dockerfile."""

MOST_ADDED = 60 * 1024 * 1024
"""Bytes of the compressed layer that the project adds to an interpreter."""

OWN = ("extender", "slurmclient")
CHECKSUMS = "SHA256SUMS"
QUIET = ("--quiet", "--disable-pip-version-check")

Say = Callable[[str], None]


class ReleaseError(Exception):
    """A part of a release cannot be made; the text says why."""


@contextmanager
def timed(name: str, say: Say) -> Iterator[None]:
    """Tell the seconds that a part takes."""
    say(f"{name} ...")
    began = time.perf_counter()
    yield
    say(f"  {time.perf_counter() - began:.1f} s")


def environment(folder: Path) -> None:
    """Install the packages of the lock and the project's own into a new virtual environment. Raises ReleaseError."""
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    lock = str(TOP / "requirements.lock")
    pip = (sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", *QUIET, "--no-compile")
    _run(*pip, "--require-hashes", "--only-binary", ":all:", "--requirement", lock)
    for package in OWN:
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(TOP / package, packages_of(folder) / package, ignore=left_out)
    without_scripts(folder)


def packages_of(folder: Path) -> Path:
    """Return the folder of the packages of an environment."""
    return folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def without_scripts(folder: Path) -> None:
    """Remove the programs that packages install, and their lines in RECORD: they name the folder of this build."""
    for path in (folder / "bin").iterdir():
        if not path.name.startswith("python"):
            path.unlink()
    for record in packages_of(folder).glob("*.dist-info/RECORD"):
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
        record.write_text("".join(one for one in lines if "/bin/" not in one.split(",")[0]), encoding="utf-8")


def image_archive(root: Path, version: str, revision: str, epoch: int) -> bytes:
    """Return the image of an assembled root. Raises ReleaseError where the layer that is added is too large."""
    added = oci.layer(oci.tree(root, epoch, only=[str(INSIDE.relative_to("/"))]))
    if len(added.content) > MOST_ADDED:
        raise ReleaseError(f"the layer of the packages has {len(added.content)} bytes; the most is {MOST_ADDED}")
    below = oci.layer(oci.tree(root, epoch, without=[str(INSIDE.relative_to("/"))]))
    arguments = {"VERSION": version, "REVISION": revision}
    settings = oci.settings_of((TOP / "Dockerfile").read_text(encoding="utf-8"), arguments)
    for key in ("org.opencontainers.image.base.name", "org.opencontainers.image.base.digest"):
        settings["Labels"].pop(key, None)
    _, machine = plugin.platform()
    name = f"slurm-extender:{version}"
    return oci.image([below, added], settings, machine=machine, created=instant(epoch), name=name)


def packed_chart(folder: Path, epoch: int) -> bytes:
    """Return the chart as `helm package` writes it. Raises ReleaseError for a symbolic link."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            raise ReleaseError(f"{path} is a symbolic link, which a chart must not have")
        if path.is_file():
            files[f"slurm-extender/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    return oci.compressed(oci.files_in_tar(files, epoch))


def wheels(out: Path) -> None:
    """Build the wheels. Raises ReleaseError."""
    for source in (TOP, TOP / "packaging" / "kubectl"):
        options = ("--no-deps", "--no-build-isolation", "--wheel-dir", str(out))
        _run(sys.executable, "-m", "pip", "wheel", *QUIET, *options, str(source))


def checksums(out: Path) -> str:
    """Return the lines of `sha256sum` for every file of a folder."""
    found = sorted(path for path in out.iterdir() if path.is_file() and path.name != CHECKSUMS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in found)


def instant(epoch: int) -> str:
    """Return a time as RFC 3339."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def make(out: Path, *, site: str, say: Say) -> None:
    """Make all parts. Raises ReleaseError, `image.assemble.AssemblyError`, OSError."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or 0)
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    metadata = yaml.safe_load((TOP / "manifests/chart/Chart.yaml").read_text(encoding="utf-8"))
    with timed("chart", say):
        packed = packed_chart(TOP / "manifests" / "chart", epoch)
        (out / f"slurm-extender-{metadata['version']}.tgz").write_bytes(packed)
        (out / f"slurm-extender-chart-{metadata['version']}.oci.tar").write_bytes(oci.chart(packed, metadata))
    with timed("wheels", say):
        wheels(out)
    with timed("kubectl slurm", say):
        plugin.build(out, __version__, site)
    with tempfile.TemporaryDirectory(prefix="slurm-extender-release-") as work:
        built = Path(work) / "environment"
        with timed("packages of the image", say):
            environment(built)
        root = Path(work) / "root"
        with timed("root of the image", say):
            assemble(built, TOP / "pyproject.toml", root, inside=INSIDE)
        with timed("list of what it holds", say):
            lock = (TOP / "requirements.lock").read_text(encoding="utf-8")
            inside = root / INSIDE.relative_to("/")
            system = system_in(root, platform.python_version(), elf_files(root), without=inside)
            document = sbom(__version__, lock, installed_in([packages_of(built)]), system, created=instant(epoch))
            (out / f"slurm-extender-{__version__}.cdx.json").write_bytes(oci.as_json(document))
        with timed("image", say):
            revision = _git("rev-parse", "HEAD") or "unknown"
            archive = image_archive(root, __version__, revision, epoch)
            _, machine = plugin.platform()
            (out / f"slurm-extender-image-{__version__}-{machine}.oci.tar").write_bytes(archive)
    (out / CHECKSUMS).write_text(checksums(out), encoding="utf-8")
    for path in sorted(out.iterdir()):
        say(f"{path.stat().st_size:>12,}  {path}")


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(TOP), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = re.sub(r"\s+", " ", done.stderr.strip())[-500:]
        raise ReleaseError(f"{' '.join(words[:4])} failed: {said}")


def main() -> None:
    """The command line."""
    options = argparse.ArgumentParser(description="Make everything that a release publishes, in one folder.")
    options.add_argument("--out", type=Path, default=TOP / "dist")
    options.add_argument("--site", default="https://example.org/slurm-extender", help="where archives will be served")
    given = options.parse_args()
    try:
        make(given.out, site=given.site, say=lambda text: print(text, flush=True))
    except (ReleaseError, OSError) as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
