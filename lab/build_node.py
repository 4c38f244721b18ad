"""Programs of a real node: kubelet and containerd from Go modules; runc, CNI plugins and busybox from Debian.

Only the suites that need a kubelet build and use them. The kubelet has a module of its own, so that the cache key of
the control plane does not depend on it.
"""

import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab import build_kubernetes, images
from lab.build_kubernetes import GoBuild, kubernetes_flags, required_version
from lab.cache import build_once, cache_folder, entry, recipe_hash
from lab.command import run_bound
from lab.errors import LabError
from lab.machine import require_programs

HERE = Path(__file__).resolve().parent
DEBIAN_PACKAGES = ("runc", "containernetworking-plugins", "busybox-static")
CONTAINERD = "github.com/containerd/containerd/v2"
KUBELET_MINOR = "1.36"


@dataclass(frozen=True, slots=True)
class NodePrograms:
    """Folders with the programs of a node: kubelet, device-plugin, probe; containerd, its shim, ctr; Debian's files."""

    kubelet: Path
    containerd: Path
    debian: Path

    @property
    def path(self) -> str:
        """Return the value of PATH with all of them, the machine's own programs last."""
        folders = (self.kubelet, self.containerd, self.debian / "usr/sbin", self.debian / "bin")
        return ":".join([*map(str, folders), "/usr/sbin:/usr/bin:/sbin:/bin"])

    @property
    def runc(self) -> Path:
        """Return the path of runc."""
        return self.debian / "usr/sbin/runc"

    @property
    def cni(self) -> Path:
        """Return the folder with the CNI plugins."""
        return self.debian / "usr/lib/cni"


def kubelet_build() -> GoBuild:
    """Return how kubelet, device plugin and probe are built; 5 to 10 minutes on two cores from nothing."""
    module = HERE / "kubelet"
    version = required_version(module / "go.mod", "k8s.io/kubernetes")
    own = ("device-plugin", "probe")
    packages = ("k8s.io/kubernetes/cmd/kubelet", *(f"./{name}" for name in own))
    sources = tuple((module / name / "main.go").read_text() for name in own)
    ldflags = kubernetes_flags(KUBELET_MINOR, version)
    return GoBuild(f"kubelet-{version}", module, packages, ldflags, sources=sources)


def containerd_build() -> GoBuild:
    """Return how containerd, its shim and ctr are built; 2 to 3 minutes on two cores."""
    module = HERE / "containerd"
    version = required_version(module / "go.mod", CONTAINERD)
    packages = tuple(f"{CONTAINERD}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr"))
    ldflags = f"-s -w -X {CONTAINERD}/version.Version={version}"
    return GoBuild(f"containerd-{version}", module, packages, ldflags, tags="no_btrfs no_devmapper no_zfs")


def build_debian() -> Path:
    """Return the folder with Debian's files and the two images, downloaded by apt-get unless they are cached."""
    return build_once(*_debian(), _download, cache=cache_folder())


def node_programs() -> NodePrograms:
    """Return the programs of a node, built unless they are cached."""
    if platform.machine() != "x86_64":
        raise LabError(f"the lab's container images are for x86_64, and this machine is {platform.machine()}")
    return NodePrograms(
        build_kubernetes.build(kubelet_build()), build_kubernetes.build(containerd_build()), build_debian()
    )


def is_built() -> bool:
    """Return whether :func:`node_programs` returns at once."""
    go = (kubelet_build(), containerd_build())
    return all(build_kubernetes.is_built(one) for one in go) and entry(*_debian(), cache_folder()).is_dir()


def _debian() -> tuple[str, str]:
    return "node-debian", recipe_hash(*DEBIAN_PACKAGES, Path(images.__file__).read_bytes())


def _download(folder: Path) -> None:
    require_programs(("apt-get", "dpkg-deb"))
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg-deb")
    assert apt
    assert dpkg
    debs = folder / "debs"
    debs.mkdir()
    # apt-get downloads into the current folder, as the user _apt where that user can write; root is enough here.
    download = [apt, "-o", "APT::Sandbox::User=root", "download", *DEBIAN_PACKAGES]
    try:
        run_bound(download, "apt-get download", folder=debs)
    except LabError:  # a new machine has no lists of packages, or lists of versions that are gone
        run_bound([apt, "update", "-q"], "apt-get update", folder=debs)
        run_bound(download, "apt-get download", folder=debs)
    for deb in sorted(debs.glob("*.deb")):
        run_bound([dpkg, "--extract", str(deb), str(folder)], f"dpkg-deb --extract {deb.name}")
    shutil.rmtree(debs)
    images.write_images(folder / "bin" / "busybox", folder)
