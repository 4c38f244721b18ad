"""What a site applies of the shipped manifests: its RBAC and its kube-scheduler profile, never copies of them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from lab import build_kubernetes
from lab.errors import LabError
from lab.kube import Kubernetes
from lab.kubectl import kubectl

BASE = Path(__file__).resolve().parent.parent / "manifests" / "base"
TLS = BASE.parent / "overlays" / "tls"
RIGHTS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
"""Kinds that say who may do what. What runs containers is left out: the lab runs the same programs as processes."""

Document = dict[str, Any]


def render(kube: Kubernetes, folder: Path = BASE) -> list[Document]:
    """Every object of a kustomize folder, in its order; raises LabError if kubectl cannot build it."""
    documents = yaml.safe_load_all(kube.kubectl("kustomize", str(folder)))
    return [document for document in documents if document]


def kustomize(folder: Path) -> list[Document]:
    """The same without a cluster, by the newest kubectl of the lab."""
    binaries = build_kubernetes.build(build_kubernetes.kubernetes_build(build_kubernetes.kubernetes_minors()[-1]))
    text = kubectl(binaries, Path(os.devnull), ["kustomize", str(folder)])
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(documents: Sequence[Document], kinds: Sequence[str]) -> list[Document]:
    """Those of the given kinds."""
    return [document for document in documents if document["kind"] in kinds]


def apply_rights(kube: Kubernetes, documents: Sequence[Document]) -> None:
    """Give the ServiceAccounts exactly the rights that the manifests give them."""
    kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(of_kind(documents, RIGHTS)))


def scheduler_profile(documents: Sequence[Document], url_prefix: str, tls: Path | None = None) -> str:
    """The shipped KubeSchedulerConfiguration, calling ``url_prefix`` and without leader election.

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
    profile["leaderElection"] = {"leaderElect": False}
    profile.pop("clientConnection", None)
    return yaml.safe_dump(profile, sort_keys=False)


def scheduler_deployment(documents: Sequence[Document]) -> tuple[str, str]:
    """The user that the shipped kube-scheduler is, and its ``--feature-gates``; raises LabError if there is none."""
    for deployment in of_kind(documents, ["Deployment"]):
        pod = deployment["spec"]["template"]["spec"]
        for container in pod["containers"]:
            words = [*container.get("command", ()), *container.get("args", ())]
            if any(word.rpartition("/")[2] == "kube-scheduler" for word in words):
                gates = [word.partition("=")[2] for word in words if word.startswith("--feature-gates=")]
                account = f"system:serviceaccount:{deployment['metadata']['namespace']}:{pod['serviceAccountName']}"
                return account, ",".join(gates)
    raise LabError("the manifests hold no Deployment that runs kube-scheduler")
