"""Stock Kubernetes binaries, kwok and helm, built from Go modules.

``lab/kubernetes/<minor>/go.mod`` names one patch release of k8s.io/kubernetes, all its staging modules, and as tools
the programs that are built of it; go.sum pins every byte. A new minor is a new folder, nothing else. A minor under
``lab/kubernetes/proved`` is built only by who asks for it by name: it costs the other tests no minute.
"""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.cache import build_once, cache_folder, entry, recipe_hash
from lab.command import run_bound
from lab.errors import LabError
from lab.machine import require_go

HERE = Path(__file__).resolve().parent
PROVED = "proved"
"""The folder of the minors that `make prove-kubernetes` alone builds."""


@dataclass(frozen=True, slots=True)
class GoBuild:
    """One ``go build``: its module, the packages, linker flags, build tags; all of it is part of the cache key.

    ``sources`` are the texts of packages that lie in the module's own folder.
    """

    name: str
    module: Path
    packages: tuple[str, ...]
    ldflags: str
    tags: str = ""
    sources: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return the hash of everything that decides the binaries, the compiler apart."""
        sources = [(self.module / name).read_bytes() for name in ("go.mod", "go.sum")]
        tags = [self.tags] if self.tags else []
        return recipe_hash(*sources, *self.packages, self.ldflags, *tags, *self.sources)

    def build(self, folder: Path) -> None:
        """Build into ``folder``; raise LabError with Go's last words if that fails."""
        go = require_go(self.module / "go.mod")
        # GOWORK/GOFLAGS of the person who builds must not change what comes out; -mod=readonly: go.sum is the law.
        environment = {
            **os.environ,
            "CGO_ENABLED": "0",
            "GOWORK": "off",
            "GOTOOLCHAIN": "local",
            "GOFLAGS": "-buildvcs=false -mod=readonly",
        }
        command = [
            go,
            "build",
            "-trimpath",
            "-tags",
            self.tags,
            "-ldflags",
            self.ldflags,
            "-o",
            f"{folder}/",
            *self.packages,
        ]
        nice = shutil.which("nice")
        # A compiler or linker that outlives `go` writes to Go's own work folder, never to the lab's.
        run_bound(
            [nice, *command] if nice else command,
            f"go build in {self.module}",
            folder=self.module,
            environment=environment,
        )


def kubernetes_minors() -> list[str]:
    """Return the minors that every test may use, oldest first: the folders with a go.mod."""
    return _minors(HERE / "kubernetes")


def proved_minors() -> list[str]:
    """Return the minors that `make prove-kubernetes` builds and tries, oldest first; nothing else builds them."""
    return _minors(HERE / "kubernetes" / PROVED)


def _minors(folder: Path) -> list[str]:
    found = (path.parent.name for path in folder.glob("*/go.mod"))
    return sorted(found, key=lambda minor: [int(part) for part in minor.split(".")])


def kubernetes_module(minor: str) -> Path:
    """Return the folder with the go.mod of a minor; raise LabError for a minor that has none."""
    for module in (HERE / "kubernetes" / minor, HERE / "kubernetes" / PROVED / minor):
        if (module / "go.mod").is_file():
            return module
    known = ", ".join((*kubernetes_minors(), *proved_minors()))
    raise LabError(f"no recipe for Kubernetes {minor!r}; there is one for {known}")


def newest_minor() -> str:
    """Return the minor that a lab uses by default."""
    return kubernetes_minors()[-1]


def older_minors() -> list[str]:
    """Return the other minors, oldest first."""
    return kubernetes_minors()[:-1]


def tools(go_mod: Path) -> tuple[str, ...]:
    """Return the packages that ``go_mod`` names as tools, in its order."""
    found = re.search(r"^tool \(\n(.*?)^\)", go_mod.read_text(), re.MULTILINE | re.DOTALL)
    return tuple(found[1].split()) if found else ()


def programs(minor: str) -> tuple[str, ...]:
    """Return the programs to build of a minor: of older ones an API server and a kube-scheduler are enough."""
    return tuple(package.rpartition("/")[2] for package in tools(kubernetes_module(minor) / "go.mod"))


def required_version(go_mod: Path, module: str) -> str:
    """Return the version of ``module`` that ``go_mod`` requires, with its leading v, or raise LabError."""
    found = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise LabError(f"{go_mod} does not require {module}")
    return found[1]


def kubernetes_build(minor: str) -> GoBuild:
    """Return the build of Kubernetes ``minor`` (such as "1.36"); raise LabError for a minor without a folder."""
    module = kubernetes_module(minor)
    version = required_version(module / "go.mod", "k8s.io/kubernetes")
    return GoBuild(f"kubernetes-{version}", module, tools(module / "go.mod"), kubernetes_flags(minor, version))


def kubernetes_flags(minor: str, version: str) -> str:
    """Return the linker flags that give programs of Kubernetes their version.

    Without these the binaries call themselves v0.0.0-master, and clients that compare versions go wrong.
    """
    major_number, minor_number = minor.split(".")
    flags = {
        "k8s.io/component-base/version.gitVersion": version,
        "k8s.io/component-base/version.gitMajor": major_number,
        "k8s.io/component-base/version.gitMinor": minor_number,
        "k8s.io/client-go/pkg/version.gitVersion": version,
    }
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in flags.items())])


def kwok_build() -> GoBuild:
    """Return the build of kwok, which stands in for the kubelets."""
    module = HERE / "kwok"
    version = required_version(module / "go.mod", "sigs.k8s.io/kwok")
    return GoBuild(f"kwok-{version}", module, ("sigs.k8s.io/kwok/cmd/kwok",), "-s -w")


def helm_build() -> GoBuild:
    """Return the build of helm, which renders the chart; under two minutes on two cores."""
    module = HERE / "helm"
    version = required_version(module / "go.mod", "helm.sh/helm/v3")
    return GoBuild(f"helm-{version}", module, ("helm.sh/helm/v3/cmd/helm",), "-s -w")


def promtool_build() -> GoBuild:
    """Return the build of promtool, which checks the alerts: without service discovery, most of Prometheus."""
    module = HERE / "promtool"
    version = required_version(module / "go.mod", "github.com/prometheus/prometheus")
    package = "github.com/prometheus/prometheus/cmd/promtool"
    return GoBuild(f"promtool-{version}", module, (package,), "-s -w", tags="remove_all_sd")


def prometheus_build() -> GoBuild:
    """Return the build of Prometheus, which runs the queries of the dashboard: of the module of promtool."""
    module = HERE / "promtool"
    version = required_version(module / "go.mod", "github.com/prometheus/prometheus")
    package = "github.com/prometheus/prometheus/cmd/prometheus"
    return GoBuild(f"prometheus-{version}", module, (package,), "-s -w", tags="remove_all_sd")


def build(wanted: GoBuild) -> Path:
    """Return the folder with the binaries, built now if it does not exist yet (5 to 10 minutes on two cores)."""
    return build_once(wanted.name, wanted.key, wanted.build, cache=cache_folder())


def is_built(wanted: GoBuild) -> bool:
    """Return whether :func:`build` would return at once."""
    return entry(wanted.name, wanted.key, cache_folder()).is_dir()
