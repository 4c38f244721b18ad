"""Put together the root of the image: an interpreter, its packages, the libraries of both, and nothing else.

No shell, no package manager, no file that runs with other rights. Run in the first stage of the Dockerfile, by the very
interpreter that is copied, with nothing but its standard library:

    python image/assemble.py --environment /opt/slurm-extender --scripts pyproject.toml --out /image

Files have the time SOURCE_DATE_EPOCH, and bytecode is checked by nobody, so that the same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import compileall
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from py_compile import PycInvalidationMode

USER = 65532
ETC = {
    "passwd": f"root:x:0:0:root:/:/nonexistent\nnonroot:x:{USER}:{USER}:nonroot:/:/nonexistent\n",
    "group": f"root:x:0:\nnonroot:x:{USER}:\n",
    # The C library alone: files, then DNS.
    "nsswitch.conf": "hosts: files dns\n",
}
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")

LEFT_OUT = (
    *("__pycache__", "*.pyc", "*.a", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3"),
    *("site-packages", "config-*", "pydoc_data", "_tkinter*", "_test*", "*_test.*.so"),
)
"""Of the standard library: what a service never imports."""

GENERATED = tuple(f"kubernetes/{client}/{kind}" for client in ("client", "aio/client") for kind in ("api", "models"))
"""Folders of which only `__init__.py` is copied. The kubernetes package imports its generated classes on first use, and
the extender uses none of them: `extender/kube/connection.py` imports only the loaders of credentials."""

NEVER = {"ash", "bash", "busybox", "dash", "ksh", "sh", "zsh", "apt", "dpkg", "pip", "pip3"}
"""Programs that no image of ours has."""

ELF = b"\x7fELF"


class AssemblyError(Exception):
    """The root is not what it should be; the text says why."""


def assemble(environment: Path, scripts: Path, out: Path, *, compiled: bool = True, inside: Path | None = None) -> None:
    """Make the root `out`, a folder that is not there yet. Raises AssemblyError, OSError.

    `inside`: where the environment is in the image; `None`: where it is on this machine.
    """
    inside = environment if inside is None else inside
    prefix = Path(sys.base_prefix)
    out.mkdir(parents=True)
    library = Path(sysconfig.get_path("stdlib", vars={"base": str(prefix), "installed_base": str(prefix)}))
    copy(library, out, LEFT_OUT)
    interpreter = Path(sys.base_exec_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    copy_file(interpreter, out)
    copy(environment, out, ("__pycache__", "*.pyc", "activate*", "Activate*", "pip", "pip3*", "pip-*"), inside)
    linked(inside, interpreter, out)
    configure(inside, interpreter, out)
    for name, target in entry_points(scripts).items():
        write_script(under(out, inside) / "bin" / name, inside / "bin" / "python", target)
    for name, text in ETC.items():
        written(out / "etc" / name, text)
    if AUTHORITIES.exists():
        copy_file(AUTHORITIES, out)
    (out / "tmp").mkdir(exist_ok=True)
    (out / "tmp").chmod(0o1777)
    needed = libraries(elf_files(out), out)
    for library_file in needed:
        copy_file(library_file, out)
    find_by_the_loader({path.parent for path in needed}, out)
    if compiled:
        for folder in (library, inside):
            compileall.compile_dir(
                str(under(out, folder)),
                quiet=2,
                stripdir=str(out),
                prependdir="/",
                invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
            )
    check(out)
    dated(out, int(os.environ.get("SOURCE_DATE_EPOCH", "0")))


def under(out: Path, path: Path) -> Path:
    """Where a path of this machine is in the root."""
    return out / path.relative_to("/")


def copy(folder: Path, out: Path, left_out: Iterable[str], inside: Path | None = None) -> None:
    """Copy a folder to the same place, or to `inside`, without `left_out` and the generated classes."""
    by_name = shutil.ignore_patterns(*left_out)

    def ignored(source: str, names: list[str]) -> set[str]:
        if source.endswith(GENERATED):
            return {*names} - {"__init__.py"}
        return by_name(source, names)

    shutil.copytree(folder, under(out, inside or folder), symlinks=True, ignore=ignored, dirs_exist_ok=True)


def copy_file(path: Path, out: Path) -> None:
    """A file, to the same place; of a link what it leads to."""
    target = under(out, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path.resolve(), target)


def configure(environment: Path, interpreter: Path, out: Path) -> None:
    """Write the environment's settings, which name the folders of the image alone."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    written(
        under(out, environment) / "pyvenv.cfg",
        f"home = {interpreter.parent}\ninclude-system-site-packages = false\nversion = {version}\n",
    )


def linked(environment: Path, interpreter: Path, out: Path) -> None:
    """Let the environment's names for the interpreter lead straight to it."""
    folder = under(out, environment) / "bin"
    for name in ("python", "python3", interpreter.name):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(interpreter)


def entry_points(pyproject: Path) -> dict[str, str]:
    """The programs of the project and what they call."""
    found: dict[str, str] = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["scripts"]
    return found


def write_script(path: Path, python: Path, target: str) -> None:
    """A program as pip makes it; the kernel starts its interpreter, no shell does."""
    module, _, function = target.partition(":")
    written(path, f"#!{python}\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n")
    path.chmod(0o755)


def written(path: Path, text: str) -> None:
    """A small file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def elf_files(out: Path) -> Iterator[Path]:
    """Programs and libraries in the root."""
    for path in files(out):
        with path.open("rb") as file:
            if file.read(4) == ELF:
                yield path


def files(out: Path) -> Iterator[Path]:
    """Every plain file in the root."""
    for folder, _, names in os.walk(out):
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def libraries(elves: Iterable[Path], out: Path) -> set[Path]:
    """What they are linked with, the loader included, but for what lies in the root already. Raises AssemblyError."""
    found: set[Path] = set()
    for elf in elves:
        said = subprocess.run(["ldd", str(elf)], capture_output=True, text=True, check=False).stdout
        if missing := re.findall(r"(\S+) => not found", said):
            raise AssemblyError(f"{elf} needs {', '.join(missing)}, which this machine does not have")
        found |= {Path(path) for path in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", said, re.MULTILINE)}
    return {path for path in found if not path.is_relative_to(out)}


def find_by_the_loader(folders: Iterable[Path], out: Path) -> None:
    """Write the loader's cache, for libraries that lie where it would not look. Raises AssemblyError."""
    written(out / "etc" / "ld.so.conf", "".join(f"{folder}\n" for folder in sorted(folders)))
    tool = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")
    if tool is None:
        raise AssemblyError("there is no ldconfig here")
    done = subprocess.run([tool, "-X", "-r", str(out)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssemblyError(f"ldconfig failed: {done.stderr.strip()}")


def check(out: Path) -> None:
    """Raises AssemblyError for what must not be there."""
    for path in files(out):
        if path.name in NEVER and os.access(path, os.X_OK):
            raise AssemblyError(f"{path} would be in the image")
        if path.stat().st_mode & 0o6000:
            raise AssemblyError(f"{path} runs with the rights of its owner")


def dated(out: Path, at: int) -> None:
    """Give everything the same time."""
    for folder, folders, names in os.walk(out):
        for name in (*folders, *names):
            os.utime(Path(folder, name), (at, at), follow_symlinks=False)
    os.utime(out, (at, at))


def main() -> None:
    """The command line."""
    options = argparse.ArgumentParser(description="Put together the root of the image.")
    options.add_argument("--environment", type=Path, required=True, help="the virtual environment, as it is to be")
    options.add_argument("--scripts", type=Path, required=True, help="the pyproject.toml that names the programs")
    options.add_argument("--out", type=Path, required=True, help="the folder to make")
    given = options.parse_args()
    try:
        assemble(given.environment, given.scripts, given.out)
    except (AssemblyError, OSError) as error:
        sys.exit(f"assemble: {error}")


if __name__ == "__main__":
    main()
