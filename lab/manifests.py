"""The shipped manifests that a site applies: its RBAC and its kube-scheduler profile, never copies of them."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from lab import build_kubernetes
from lab.errors import LabError
from lab.kube import Kubernetes
from lab.kubectl import kubectl

BASE = Path(__file__).resolve().parent.parent / "manifests" / "base"
CORE = BASE.parent / "core"
COMPONENTS = BASE.parent / "components"
RIGHTS = (
    "Namespace",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "FlowSchema",
)
"""Kinds that say who may do what, and whose requests the API server serves first.

Kinds that run containers are left out: the lab runs the same programs as processes.
"""

Document = dict[str, Any]


def render(kube: Kubernetes, folder: Path = BASE, components: Sequence[str] = ()) -> list[Document]:
    """Return every object of a kustomize folder with these components on it, in its order.

    Raises LabError if kubectl cannot build it.
    """
    with put_together(folder, components) as overlay:
        return _documents(kube.kubectl("kustomize", str(overlay)))


def shipped(kube: Kubernetes, folder: Path = BASE) -> list[Document]:
    """Return the objects for a site of this Kubernetes version: ``folder`` with the component of that version."""
    return render(kube, folder, [f"kubernetes-{kube.minor}"])


def kustomize(folder: Path, components: Sequence[str] = ()) -> list[Document]:
    """Render the same without a cluster, by the newest kubectl of the lab."""
    binaries = build_kubernetes.build(build_kubernetes.kubernetes_build(build_kubernetes.newest_minor()))
    with put_together(folder, components) as overlay:
        return _documents(kubectl(binaries, Path(os.devnull), ["kustomize", str(overlay)]))


@contextmanager
def put_together(folder: Path, components: Sequence[str]) -> Iterator[Path]:
    """Make a folder with a kustomization of ``folder`` and these components, for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="overlay-") as name:
        overlay = Path(name).resolve()
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            # kustomize takes no absolute paths.
            "resources": [os.path.relpath(folder, overlay)],
            "components": [os.path.relpath(COMPONENTS / component, overlay) for component in components],
        }
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        yield overlay


def _documents(text: str) -> list[Document]:
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(documents: Sequence[Document], kinds: Sequence[str]) -> list[Document]:
    """Return the documents of the given kinds."""
    return [document for document in documents if document["kind"] in kinds]


def apply_rights(kube: Kubernetes, documents: Sequence[Document]) -> None:
    """Give the ServiceAccounts exactly the rights that the manifests give them."""
    kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(of_kind(documents, RIGHTS)))


def scheduler_profile(
    documents: Sequence[Document], url_prefix: str, tls: Path | None = None, *, elected: bool = False
) -> str:
    """Return the shipped KubeSchedulerConfiguration for ``url_prefix``; leader election only with ``elected``.

    In plain HTTP unless ``tls`` is the folder in which the files are that it mounts.

    Raises LabError unless exactly one ConfigMap holds exactly one such document.
    """
    texts = [
        text
        for config_map in of_kind(documents, ["ConfigMap"])
        for text in config_map.get("data", {}).values()
        if "kind: KubeSchedulerConfiguration" in text
    ]
    if len(texts) != 1:
        raise LabError(f"the manifests hold {len(texts)} KubeSchedulerConfigurations; there must be one")
    profile = yaml.safe_load(texts[0])
    for extender in profile["extenders"]:
        extender["urlPrefix"] = url_prefix
        if tls is not None:
            extender["tlsConfig"] = {key: str(tls / Path(file).name) for key, file in extender["tlsConfig"].items()}
        else:
            extender.pop("tlsConfig", None)
            extender.pop("enableHTTPS", None)
    if not elected:
        profile["leaderElection"] = {"leaderElect": False}
    return yaml.safe_dump(profile, sort_keys=False)


def scheduler_deployment(documents: Sequence[Document]) -> tuple[str, str]:
    """Return the shipped kube-scheduler's user and its ``--feature-gates``; raise LabError if there is none."""
    for deployment in of_kind(documents, ["Deployment"]):
        pod = deployment["spec"]["template"]["spec"]
        for container in pod["containers"]:
            words = [*container.get("command", ()), *container.get("args", ())]
            if any(word.rpartition("/")[2] == "kube-scheduler" for word in words):
                gates = [word.partition("=")[2] for word in words if word.startswith("--feature-gates=")]
                account = f"system:serviceaccount:{deployment['metadata']['namespace']}:{pod['serviceAccountName']}"
                return account, ",".join(gates)
    raise LabError("the manifests hold no Deployment that runs kube-scheduler")
