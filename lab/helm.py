"""helm, to render the shipped chart; it needs no cluster for that."""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lab import build_kubernetes
from lab.errors import LabError
from lab.manifests import BASE, Document

CHART = BASE.parent / "chart"


def template(
    values: Mapping[str, Any],
    *,
    minor: str = build_kubernetes.newest_minor(),
    namespace: str = "slurm-extender",
    chart: Path = CHART,
) -> list[Document]:
    """Return every object of the chart with these values; raise LabError with helm's message if it rejects them.

    helm renders for a cluster of the patch release that the lab has, else of the first one of ``minor``.
    """
    version = f"v{minor}.0"
    if minor in (*build_kubernetes.kubernetes_minors(), *build_kubernetes.proved_minors()):
        wanted = build_kubernetes.kubernetes_build(minor)
        version = build_kubernetes.required_version(wanted.module / "go.mod", "k8s.io/kubernetes")
    where = [f"--namespace={namespace}", f"--kube-version={version}"]
    text = helm("template", "slurm-extender", str(chart), *where, values=with_image(values))
    return [document for document in yaml.safe_load_all(text) if document]


def with_image(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with a repository for the extender's image, which the chart has no default for."""
    return {**values, "image": {"repository": "slurm-extender", **(values.get("image") or {})}}


def helm(*arguments: str, values: Mapping[str, Any] | None = None) -> str:
    """Run helm and return what it printed; raises LabError with its own words if it fails."""
    binaries = build_kubernetes.build(build_kubernetes.helm_build())
    given = [] if values is None else ["--values=-"]
    with tempfile.TemporaryDirectory(prefix="helm-") as home:
        # helm keeps caches and plug-ins where these say.
        own = {f"HELM_{name}_HOME": home for name in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [str(binaries / "helm"), *arguments, *given],
            input=yaml.safe_dump(dict(values or {})),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, **own},
        )
    if done.returncode != 0:
        raise LabError(f"helm {arguments[0]} failed ({done.returncode}): {done.stderr.strip()}")
    return done.stdout
