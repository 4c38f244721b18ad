"""Slurm (and etcd) from Debian: one chroot per Slurm release, made by debootstrap.

A suite moves on: what it held on the day of the build stays in the cache, and :func:`packages` says what that was.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.cache import build_once, cache_folder, entry, recipe_hash
from lab.command import run_bound
from lab.errors import LabError
from lab.machine import require_programs, require_root

PACKAGES = (
    "slurmctld",
    "slurmd",
    "slurmrestd",
    "slurm-client",
    "slurm-wlm-jwt-plugin",
    "slurmdbd",
    "slurm-wlm-mysql-plugin",
    "mariadb-server-core",  # the server alone; the whole package brings Perl, Galera and programs without a use here
    "curl",  # what a placeholder script and an Epilog call home with
    "jq",
    "procps",
    "etcd-server",  # bookworm's 3.4 lacks what the watch-lists of kube-apiserver need
    "etcd-client",
)

USERS = {"slurmrest": 1100, "alice": 2001, "bob": 2002}
"""Accounts of the chroots, uid = gid: slurmrestd refuses to run as root or SlurmUser; the others own jobs."""

MOUNTPOINT = "lab"
"""The folder at the root of a chroot where a running cluster's own files appear."""

_USERADD = "\n".join(
    f"useradd --uid {uid} --user-group --create-home --shell /bin/bash {name}" for name, uid in USERS.items()
)

FINISH = f"""
printf '127.0.0.1 localhost lab\\n' > /etc/hosts
rm -f /etc/resolv.conf
sed -i 's/^hosts:.*/hosts: files/' /etc/nsswitch.conf
{_USERADD}
mkdir /{MOUNTPOINT}
rm -rf /var/lib/apt/lists /var/cache/apt/archives
mkdir -p /var/lib/apt/lists /var/cache/apt/archives
dpkg-query --show --showformat '${{Package}} ${{Version}}\\n' > /packages
"""
"""Run in the fresh chroot. Names are resolved from the hosts file alone: Debian's slurmctld otherwise asks DNS ten
times, a second apart, while it holds its locks."""


@dataclass(frozen=True, slots=True)
class SlurmRelease:
    """A Slurm release and where it comes from: a Debian suite; ``parser`` is the newest that its slurmrestd serves."""

    name: str
    suite: str
    parser: str


RELEASES = {
    "24.11": SlurmRelease("24.11", "trixie", "v0.0.42"),
    "26.05": SlurmRelease("26.05", "sid", "v0.0.45"),
}


def release(name: str) -> SlurmRelease:
    """Return the release of that name; raise LabError for one that there is no recipe for."""
    if name not in RELEASES:
        raise LabError(f"no recipe for Slurm {name!r}; there is one for {', '.join(RELEASES)}")
    return RELEASES[name]


def _names(wanted: SlurmRelease) -> tuple[str, str]:
    return f"slurm-{wanted.name}-{wanted.suite}", recipe_hash(wanted.suite, *PACKAGES, FINISH)


def build(wanted: SlurmRelease) -> Path:
    """Return the chroot of ``wanted``, built now if it does not exist yet (two to three minutes)."""
    name, key = _names(wanted)
    return build_once(name, key, lambda folder: _debootstrap(wanted, folder), cache=cache_folder())


def is_built(wanted: SlurmRelease) -> bool:
    """Return whether :func:`build` would return at once."""
    name, key = _names(wanted)
    return entry(name, key, cache_folder()).is_dir()


def packages(chroot: Path) -> dict[str, str]:
    """Debian package to version, as installed in ``chroot``."""
    pairs = (line.split(" ", 1) for line in (chroot / "packages").read_text().splitlines())
    return {pair[0]: pair[1] for pair in pairs}


def slurm_version(chroot: Path) -> str:
    """Return the upstream version of Slurm in ``chroot``, such as "24.11.5"."""
    return packages(chroot)["slurmctld"].split("-")[0].split("+")[0]


def _debootstrap(wanted: SlurmRelease, folder: Path) -> None:
    require_root()
    require_programs(("debootstrap", "unshare", "mount", "chroot"))
    downloads = cache_folder() / "debs" / wanted.suite
    downloads.mkdir(parents=True, exist_ok=True)
    debootstrap = shutil.which("debootstrap")
    steps = (
        [
            str(debootstrap),
            "--variant=minbase",
            f"--cache-dir={downloads}",  # what an interrupted build had fetched is not fetched again
            f"--include={','.join(PACKAGES)}",
            wanted.suite,
            str(folder),
        ],
        ["chroot", str(folder), "/bin/sh", "-euc", FINISH],
    )
    for step in steps:
        # In namespaces of its own: debootstrap mounts proc and sys in the new root, and an interrupted one leaves them
        # there, where a later clean-up would walk into them. Here mounts and processes end with the command.
        sealed = ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--", *step]
        run_bound(sealed, f"building the chroot for Slurm {wanted.name} ({Path(step[0]).name})")
    version = slurm_version(folder)
    if not version.startswith(f"{wanted.name}."):
        raise LabError(
            f"Debian {wanted.suite} has Slurm {version} now, not {wanted.name}: lab/build_slurm.py must name another "
            f"suite for {wanted.name}, or a new release"
        )
