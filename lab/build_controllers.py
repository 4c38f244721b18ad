"""Controllers that create or admit the Pods of gangs, from Go modules: JobSet, LeaderWorkerSet and others.

Only `make prove-controllers` builds and uses them. Each folder of ``lab/controllers`` is a Go module of its own, with
the dependencies that the release names, so that the program is the one that its project publishes. Definitions, rights
and webhooks come from the same Go module; the project has no copy of them.
"""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.build_kubernetes import HERE, GoBuild, required_version
from lab.cache import build_once, cache_folder, entry, recipe_hash
from lab.errors import LabError
from lab.machine import require_go

MANIFESTS = "manifests"


@dataclass(frozen=True, slots=True)
class ControllerRecipe:
    """One controller: its Go module, the package of its program, and the folders of the module with its manifests."""

    title: str
    folder: str
    module: str
    package: str
    manifests: tuple[str, ...]

    @property
    def go_mod(self) -> Path:
        """Return the go.mod that names the release."""
        return HERE / "controllers" / self.folder / "go.mod"

    @property
    def version(self) -> str:
        """Return the release, with its leading v."""
        return required_version(self.go_mod, self.module)

    @property
    def program(self) -> str:
        """Return the name of the binary that ``go build`` writes."""
        return self.package.rpartition("/")[2]


JOBSET = ControllerRecipe("JobSet", "jobset", "sigs.k8s.io/jobset", "sigs.k8s.io/jobset", ("config",))
LWS = ControllerRecipe("LeaderWorkerSet", "lws", "sigs.k8s.io/lws", "sigs.k8s.io/lws/cmd", ("config",))
COSCHEDULING = ControllerRecipe(
    "scheduler-plugins",
    "coscheduling",
    "sigs.k8s.io/scheduler-plugins",
    "sigs.k8s.io/scheduler-plugins/cmd/controller",
    ("manifests/coscheduling", "manifests/capacityscheduling", "manifests/install"),
)
KUEUE = ControllerRecipe("Kueue", "kueue", "sigs.k8s.io/kueue", "sigs.k8s.io/kueue/cmd/kueue", ("config",))
RECIPES = (JOBSET, LWS, COSCHEDULING, KUEUE)


def controller_build(recipe: ControllerRecipe) -> GoBuild:
    """Return how the program is built; 4 to 15 minutes on two cores from nothing."""
    return GoBuild(f"{recipe.folder}-{recipe.version}", recipe.go_mod.parent, (recipe.package,), "-s -w")


def build_controller(recipe: ControllerRecipe) -> Path:
    """Return the folder with the program and ``manifests``, built unless it is cached."""
    return build_once(*_key(recipe), partial(_build, recipe), cache=cache_folder())


def is_built(recipe: ControllerRecipe) -> bool:
    """Return whether :func:`build_controller` returns at once."""
    return entry(*_key(recipe), cache_folder()).is_dir()


def _key(recipe: ControllerRecipe) -> tuple[str, str]:
    build = controller_build(recipe)
    return build.name, recipe_hash(build.key, *recipe.manifests)


def _build(recipe: ControllerRecipe, folder: Path) -> None:
    controller_build(recipe).build(folder)
    source = _module_folder(recipe)
    for path in _files(source, recipe.manifests):
        target = folder / MANIFESTS / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())  # Go's own folders and files are read-only


def _files(source: Path, folders: Iterable[str]) -> Iterable[Path]:
    for name in folders:
        yield from (path for path in sorted((source / name).rglob("*")) if path.is_file())


def _module_folder(recipe: ControllerRecipe) -> Path:
    """Return where Go keeps the module; ``go build`` has downloaded it."""
    command = [require_go(recipe.go_mod), "list", "-m", "-f", "{{.Dir}}", recipe.module]
    done = subprocess.run(command, cwd=recipe.go_mod.parent, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)} failed ({done.returncode}):\n{done.stderr[-2000:]}")
    return Path(done.stdout.strip())
