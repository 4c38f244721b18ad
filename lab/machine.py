"""Requirements of the lab on the machine, checked before anything is built or started."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from lab.errors import LabError

DEBIAN_PACKAGES = {
    "debootstrap": "debootstrap",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "chroot": "coreutils",
    "ip": "iproute2",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
}
"""Program to the Debian package that brings it."""


def require_root() -> None:
    """Raise LabError unless this process may make namespaces, mounts and device files."""
    if os.geteuid() != 0:
        raise LabError(
            f"the lab must run as root (this is uid {os.geteuid()}): it makes chroots, mounts and PID namespaces. "
            "Use sudo, or a container with --privileged."
        )


def require_programs(programs: Iterable[str]) -> None:
    """Install the Debian packages of missing ``programs`` with apt-get; raise LabError where that does not help."""
    missing = [program for program in programs if shutil.which(program) is None]
    if not missing:
        return
    packages = sorted({DEBIAN_PACKAGES[program] for program in missing})
    if shutil.which("apt-get") is None:
        raise LabError(f"missing {', '.join(missing)}, and no apt-get here: install {', '.join(packages)} by hand")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-y", "-q", *packages]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"{' '.join(command)} failed ({done.returncode}):\n{(done.stdout + done.stderr)[-2000:]}")
    still = [program for program in missing if shutil.which(program) is None]
    if still:
        raise LabError(f"{', '.join(still)} still missing after installing {', '.join(packages)}")


def go_directive(go_mod: Path) -> tuple[int, ...]:
    """Read the Go version that a go.mod asks for; raise LabError if the file names none."""
    found = re.search(r"^go (\d+)\.(\d+)(?:\.(\d+))?$", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise LabError(f"{go_mod} has no go directive")
    return tuple(int(part) for part in found.groups(default="0"))


def require_go(go_mod: Path) -> str:
    """Return the path of a Go that is new enough for ``go_mod``; raise LabError if there is none.

    GOTOOLCHAIN is not relied on: a Go that is too old would fetch another one behind the builder's back.
    """
    needed = go_directive(go_mod)
    wanted = ".".join(str(part) for part in needed)
    go = shutil.which("go")
    if go is None:
        raise LabError(f"no `go` on PATH: building from {go_mod.parent} needs Go >= {wanted} (https://go.dev/dl)")
    said = subprocess.run([go, "env", "GOVERSION"], cwd="/", capture_output=True, text=True, check=False).stdout.strip()
    found = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", said)
    have = tuple(int(part) for part in found.groups(default="0")) if found else ()
    if have < needed:
        raise LabError(f"{go} is {said or 'of unknown version'}; building from {go_mod.parent} needs Go >= {wanted}")
    return go
