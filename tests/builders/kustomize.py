"""The shipped manifests as objects, put together as kustomize does, without its hashes and labels."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "manifests" / "base"
CORE = ROOT / "manifests" / "core"
COMPONENTS = ROOT / "manifests" / "components"
TLS = COMPONENTS / "tls"

Document = dict[str, Any]


def documents(path: Path) -> list[Document]:
    """Return every document of a file."""
    return deepcopy(_read(path.read_text()))


@cache
def _read(text: str) -> list[Document]:
    return [one for one in yaml.safe_load_all(text) if one]


def render(folder: Path = CORE) -> list[Document]:
    """Return the resources of a folder, with the ConfigMaps that it generates."""
    [kustomization] = documents(folder / "kustomization.yaml")
    found = [one for name in kustomization["resources"] for one in documents(folder / name)]
    for generator in kustomization.get("configMapGenerator", ()):
        data = {name: (folder / name).read_text() for name in generator["files"]}
        metadata = {"name": generator["name"], "namespace": generator["namespace"]}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return found


def of_kind(kind: str, folder: Path = CORE) -> dict[str, Document]:
    """Return the objects of a kind by name."""
    return {one["metadata"]["name"]: one for one in render(folder) if one["kind"] == kind}


def pod_spec(deployment: str) -> Document:
    """Return the Pod of a Deployment."""
    spec: Document = of_kind("Deployment")[deployment]["spec"]["template"]["spec"]
    return spec
