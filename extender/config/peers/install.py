"""Write an imported configuration in a form that installs: values of the chart, or a kustomization.

Both forms name the ports, files and Secrets of the shipped manifests.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

from extender.config.peers.plan import ImportPlan

DEFAULT_NAME = "slurm"
"""schedulerName in the shipped manifests."""

NAMESPACE, SECRET = "slurm-extender", "slurm-extender"
"""Of the shipped manifests; the Secret has the token of Slurm."""

_SAID_BY_THE_CHART = ("apiVersion", "kind")

_NAMED = (
    ("ValidatingAdmissionPolicy", "slurm-extender-pods", "/spec/variables/0/expression", "oldObject"),
    ("ValidatingAdmissionPolicy", "slurm-extender-pod-ends", "/spec/validations/0/expression", "oldObject"),
    ("MutatingAdmissionPolicy", "slurm-extender-gate", "/spec/matchConditions/0/expression", "object"),
    ("MutatingAdmissionPolicy", "slurm-extender-tolerations", "/spec/matchConditions/0/expression", "object"),
    ("ValidatingAdmissionPolicy", "slurm-extender-grace", "/spec/matchConditions/0/expression", "object"),
    (
        "ValidatingAdmissionPolicy",
        "slurm-extender-grace-of-deletions",
        "/spec/matchConditions/0/expression",
        "oldObject",
    ),
)
"""The expressions of `manifests/base` that compare the scheduler's name: kind, name, path and compared object."""

_FILES = "/etc/slurm-scheduler/tls"

_NEW_TOKEN = '"$(scontrol token username=slurm lifespan=86400)"'  # noqa: S105 - a command that makes one

Writer = Callable[[Any], str]
"""Writes a value as YAML."""


class InstallForm(StrEnum):
    """Name what the imported configuration is printed for."""

    HELM = "helm"
    KUSTOMIZE = "kustomize"


def installable(form: InstallForm, plan: ImportPlan, write: Writer) -> str:
    """Return the text to install with."""
    document = plan.document | {"slurm": {"user": "slurm"} | plan.document["slurm"]}
    if form is InstallForm.HELM:
        config = {key: value for key, value in document.items() if key not in _SAID_BY_THE_CHART}
        values: dict[str, Any] = {"config": config}
        gangs = dict(config.get("gangs", {}))
        if groups := gangs.pop("podGroups", None):  # the chart gives the rights with it
            values |= {"config": config | {"gangs": gangs}, "podGroups": groups}
        return "# Values of the chart.\n" + write(values)
    return "# A kustomization, in a folder of manifests/overlays.\n" + write(_kustomization(document, write))


def steps(form: InstallForm, plan: ImportPlan) -> Iterator[str]:
    """Yield the commands that install it, a line each."""
    token = _NEW_TOKEN
    if secret := plan.token_secret:
        template = shlex.quote(f"{{{{index .data {_in_template(secret.key)} | base64decode}}}}")
        place = shlex.quote(secret.namespace) if secret.namespace else "NAMESPACE"
        token = f'"$(kubectl -n {place} get secret {shlex.quote(secret.name)} -o go-template={template})"'
    made = f"kubectl -n {NAMESPACE} create secret generic {SECRET} --from-literal=token={token}"
    yield f"kubectl create namespace {NAMESPACE}"
    if form is InstallForm.HELM:
        yield made
        yield f"helm install slurm-extender manifests/chart -n {NAMESPACE} -f THIS --set image.repository=IMAGE"
        return
    yield f'{made} --from-literal=hooks-key="$(openssl rand -hex 32)"'
    yield "kubectl apply -k manifests/overlays/imported, with this as its kustomization.yaml"


def _in_template(key: str) -> str:
    return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'


def scheduler_configuration(name: str) -> dict[str, Any]:
    """Return the configuration of kube-scheduler for this schedulerName, as `manifests/components/tls` has it."""
    taken_out = ("NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality", "DefaultPreemption")
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {
            "leaderElect": True,
            "resourceName": "slurm-scheduler",
            "resourceNamespace": NAMESPACE,
        },
        "clientConnection": {"qps": 500, "burst": 1000},
        "percentageOfNodesToScore": 100,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 60,
        "profiles": [
            {
                "schedulerName": name,
                "plugins": {"multiPoint": {"disabled": [{"name": plugin} for plugin in taken_out]}},
            }
        ],
        "extenders": [
            {
                "urlPrefix": f"https://slurm-extender.{NAMESPACE}.svc:8080/scheduler",
                f"{verb}Verb": verb,
                "enableHTTPS": True,
                "tlsConfig": {
                    "caFile": f"{_FILES}/ca.crt",
                    "certFile": f"{_FILES}/tls.crt",
                    "keyFile": f"{_FILES}/tls.key",
                },
                "httpTimeout": timeout,
                "nodeCacheCapable": True,
                "ignorable": False,
            }
            for verb, timeout in (("filter", "5s"), ("bind", "30s"))
        ],
    }


def _kustomization(document: dict[str, Any], write: Writer) -> dict[str, Any]:
    name = str(document.get("scheduler", {}).get("name", DEFAULT_NAME))
    config_maps = [_config_map("extender-config", "config.yaml", write(document))]
    whole: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["../../base"],  # kustomize applies components last: those of this file would undo its ConfigMaps
        "configMapGenerator": config_maps,
    }
    if document.get("gangs", {}).get("podGroups"):
        whole["components"] = ["../../components/pod-groups"]
    if name != DEFAULT_NAME:
        config_maps.append(_config_map("scheduler-config", "kube-scheduler.yaml", write(scheduler_configuration(name))))
        whole["patches"] = [
            _patch(kind, policy, path, f"{compared}.spec.schedulerName == {_in_cel(name)}", write)
            for kind, policy, path, compared in _NAMED
        ]
    return whole


def _config_map(name: str, file: str, text: str) -> dict[str, Any]:
    return {"name": name, "namespace": NAMESPACE, "behavior": "merge", "literals": [f"{file}={text}"]}


def _in_cel(name: str) -> str:
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"


def _patch(kind: str, policy: str, path: str, expression: str, write: Writer) -> dict[str, Any]:
    change = {"op": "replace", "path": path, "value": expression}
    return {"target": {"kind": kind, "name": policy}, "patch": write([change])}
