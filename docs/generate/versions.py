"""Print `docs/reference/versions.md` from what the lab builds, what the simulator imitates, and the manifests.

Run from the top of the repository: `python -m docs.generate.versions > docs/reference/versions.md`
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import yaml

from lab.build_controllers import RECIPES
from lab.build_kubernetes import (
    HERE,
    kubernetes_build,
    kubernetes_minors,
    newest_minor,
    proved_minors,
    required_version,
)
from lab.build_node import CONTAINERD
from lab.build_slurm import RELEASES as BUILT
from simulator.slurm.release import RELEASES as IMITATED
from simulator.slurm.release import SimRelease
from slurmclient.capabilities import OLDEST_RELEASE

TOP = Path(__file__).parents[2]

_HEAD = """\
# Versions

<!-- Printed by `python -m docs.generate.versions` from `lab/`, `manifests/` and `simulator/slurm/release.py`. -->

After reading this page you know the supported releases, and those that were tested. *Real components* are the
programs themselves, built by `lab/` and used by `make e2e` and `make prove`; [docs/proof](../proof) has the exact
versions, the date and every case. kwok replaces the kubelet in all runs except `make e2e-kubelet` and
`make prove-kubelets`.
"""

_KUBERNETES = """
## Kubernetes

| minor | manifests | feature gates of kube-scheduler | real components |
|---|---|---|---|
"""

_KUBERNETES_TAIL = """
A test renders each component and compares it with the chart. The tested API servers accept all of them. The policies
of `gate-policy` need 1.36: the components of older minors take them out of `manifests/base`. Use
`components/gate-webhook` for the scheduling gate there.

The newest minor runs every test. An older one runs the tests that depend on the minor, or that every installation
needs: the manifests' RBAC, with every permission used and none missing; kube-scheduler with the shipped profile and
the flags of the component, and its back-off; the gate by the webhook; mutual TLS; ends of Pods and of jobs; drains
in both directions; `doctor`, `uninstall`. kube-controller-manager was not part of these tests. For a minor that was
not run, only the feature gates were checked. To add a minor to the lab, add a folder under `lab/kubernetes`.
"""

_SLURM = """
## Slurm

| release | API versions | real components | simulator |
|---|---|---|---|
"""

_SLURM_TAIL = """
The oldest supported release is {oldest}. The extender uses the newest API version that both sides know. The
simulator implements the observed behaviour of each release; contract tests check it and the real components alike,
where these are available. External jobs need 25.05. Registered nodes need 25.11.6, and 26.05.3 to be registered
again after a deletion ([external nodes](../nodes.md#register-nodes-in-slurm)). slurmrestd and slurmctld had the same
release in every run.
"""

_PYTHON = """
## Python and the rest

| | |
|---|---|
"""


def render() -> str:
    """The whole page, with a newline at its end."""
    oldest = ".".join(map(str, OLDEST_RELEASE))
    return "".join([
        _HEAD,
        _KUBERNETES, *(f"{row}\n" for row in _kubernetes()), _KUBERNETES_TAIL,
        _SLURM, *(f"{row}\n" for row in _slurm()), _SLURM_TAIL.format(oldest=oldest),
        _PYTHON, *(f"{row}\n" for row in _others()),
    ])  # fmt: skip


def _kubernetes() -> Iterable[str]:
    """A row for each minor that has a component, the newest first."""
    built, proved = kubernetes_minors(), proved_minors()
    folders = (TOP / "manifests/components").glob("kubernetes-*")
    for folder in sorted(folders, key=lambda one: [int(part) for part in one.name.split("-")[1].split(".")])[::-1]:
        minor = folder.name.removeprefix("kubernetes-")
        shown = f"`components/{folder.name}`"
        run = _run(minor) if minor in built else _proved(minor) if minor in proved else "not run"
        yield f"| {minor} | {shown} | {_gates(folder)} | {run} |"


def _proved(minor: str) -> str:
    """Return the patch release on the page of other minors. The page may not exist, since `make prove` writes it."""
    release = kubernetes_build(minor).name.removeprefix("kubernetes-")
    page = TOP / "docs/proof/kubernetes.md"
    if page.is_file() and f"Kubernetes {release.removeprefix('v')}" in page.read_text(encoding="utf-8"):
        return f"{release}, a part: [results](../proof/kubernetes.md)"
    return "not run; `make prove-kubernetes` does it"


def _run(minor: str) -> str:
    """Return the patch release, and how many tests of it ran."""
    release = kubernetes_build(minor).name.removeprefix("kubernetes-")
    return release if minor == newest_minor() else f"{release}, a part"


def _gates(component: Path) -> str:
    """The feature gates that a component gives kube-scheduler."""
    document = yaml.safe_load((component / "kustomization.yaml").read_text(encoding="utf-8"))
    [operation] = yaml.safe_load(document["patches"][0]["patch"])
    said = operation.get("value", "").removeprefix("--feature-gates=")
    return ", ".join(f"`{gate}`" for gate in said.split(",")) if said else "none"


def _slurm() -> Iterable[str]:
    for release in map(SimRelease, IMITATED):
        name = f"{release.number[0]}.{release.number[1]:02d}"
        versions = ", ".join(f"v0.0.{one}" for one in release.api_versions)
        run = f"Debian {BUILT[name].suite}: [results](../proof/slurm-{name}.md)" if name in BUILT else "not run"
        yield f"| {name} | {versions} | {run} | {release.text} |"


def _others() -> Iterable[str]:
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [image] = re.findall(r"^ARG PYTHON=(\S+)$", (TOP / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    shown = "\n".join(page.read_text(encoding="utf-8") for page in (TOP / "docs/proof").glob("*.md"))
    run = ", ".join(sorted(set(re.findall(r"\bPython (\d+\.\d+)\.\d+", shown))))
    yield f"| Python | {project['requires-python'].removeprefix('>=')} or later; run with {run} |"
    name = image.split("@")[0]
    ran = "built and run with 3.13.5, see [the proof](../proof/install.md#image)"
    yield f"| Python of the image | {name}; {ran} |"
    yield f"| kwok, instead of the kubelet | {required_version(HERE / 'kwok/go.mod', 'sigs.k8s.io/kwok')} |"
    yield f"| kubelet, in its own suites | {required_version(HERE / 'kubelet/go.mod', 'k8s.io/kubernetes')} |"
    yield f"| containerd, in the same suites | {required_version(HERE / 'containerd/go.mod', CONTAINERD)} |"
    results = "[results](../proof/controllers.md)"
    yield from (f"| {one.title}, its controller: {results} | {one.version} |" for one in RECIPES)
    yield f"| helm, which renders the chart | {required_version(HERE / 'helm/go.mod', 'helm.sh/helm/v3')} |"
    yield "| machines | Linux on x86-64; no other machine was tested |"


if __name__ == "__main__":
    sys.stdout.write(render())
