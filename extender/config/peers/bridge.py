"""slurm-bridge's configuration: `config.yaml` of its ConfigMap, or the Helm values that make it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extender.config.peers.plan import ImportPlan, TokenSecret
from extender.config.peers.sunk import FENCED_GANGS, allow_all_annotations

Values = Mapping[str, Any]

BRIDGE = "slurm-bridge's defaults"
JWT_SECRET, JWT_KEY = "slurm-bridge-token", "auth-token"
"""The Secret that its chart mounts by default, and the key in it: that of slurm-operator's Token."""

_NAMESPACES = (
    "Pods there get the scheduler's name from slurm-bridge's webhook; here the label "
    "slurm-extender.io/scheduler-name of the Namespace does that. scope.namespaces would refuse the others instead"
)
_OF_FILE = {
    "managedNamespaces": _NAMESPACES,
    "managedNamespaceSelector": _NAMESPACES,
    "deviceProfiles": "`devices` maps DeviceClasses of ResourceClaims (docs/devices.md), jobs.gres extended resources "
    "(docs/resources.md)",
}
_OF_VALUES = {
    "scheduler": "of the Deployment: manifests/base has its own, with feature gates and leader election",
    "controllers": "there are no controllers of their own; the extender follows Pods and Nodes itself",
    "nameOverride": "of the chart",
    "fullnameOverride": "of the chart",
    "namespaceOverride": "of the chart",
    "schedulerConfig.clientQPS": "only kubernetes.connections limits the requests of the extender",
    "schedulerConfig.clientBurst": "only kubernetes.connections limits the requests of the extender",
}


def is_file(document: Values) -> bool:
    """Return whether the document looks like slurm-bridge's config.yaml."""
    return "slurmRestApi" in document or {"schedulerName", "mcsLabel"} <= document.keys()


def are_values(document: Values) -> bool:
    """Return whether the values look like those of slurm-bridge's chart."""
    return "sharedConfig" in document or "schedulerConfig" in document


def take_file(document: Values, plan: ImportPlan, where: str = "") -> None:
    """Take over what config.yaml says; `where` stands before its keys in notes."""
    for key, value in document.items():
        _take(str(key), value, plan, where)
    _as_there(plan)


def take_values(document: Values, plan: ImportPlan) -> None:
    """Take over what the Helm values say."""
    for group, keys in document.items():
        if group in _OF_VALUES:
            plan.note(group, _OF_VALUES[group])
        elif group in {"schedulerConfig", "sharedConfig"}:
            for key, value in plan.map(keys, group).items():
                _take(str(key), value, plan, f"{group}.")
        elif group == "admission":
            for key, value in plan.map(keys, group).items():
                if key in _OF_FILE and value:
                    plan.note(f"admission.{key}", _OF_FILE[key])
            plan.note(
                "admission",
                "the chart's schedulingGate takes its place, by kustomize components/gate-policy or gate-webhook",
            )
        else:
            plan.note(str(group), "no counterpart")
    _as_there(plan)


def _take(key: str, value: Any, plan: ImportPlan, where: str) -> None:
    source = f"{where}{key}"
    path = {
        "schedulerName": ("scheduler", "name"),
        "mcsLabel": ("jobs", "defaults", "mcsLabel"),
        "partition": ("jobs", "defaults", "partition"),
    }.get(key)
    if value is None or value in ("", [], {}):
        return
    if path is not None:
        plan.put(path, value, source)
    elif key == "slurmRestApi":
        plan.put(("slurm", "addresses"), [value], source)
    elif key == "slurmJwtSecret" and isinstance(value, dict | str):
        # Up to 1.0 the name of the Secret alone (`_helpers.tpl`).
        named = value if isinstance(value, dict) else {"name": value}
        secret = TokenSecret(str(named.get("name") or JWT_SECRET), str(named.get("key") or JWT_KEY))
        plan.token_secret = secret
        plan.note(
            source,
            f"copy {secret.key} of the Secret {secret.name} to the key token of the Secret slurm-extender in the "
            "namespace of the extender",
        )
    else:
        why = _OF_FILE.get(key) or _OF_VALUES.get(source) or "no counterpart"
        plan.note(source, why)


def _as_there(plan: ImportPlan) -> None:
    """Keep the behaviour of slurm-bridge: jobs have their nodes for themselves, and Pods may name any account."""
    plan.put(("jobs", "defaults", "exclusive"), "none", BRIDGE)
    plan.note(BRIDGE, "jobs.defaults.exclusive: none gives each Pod a whole node, as before; remove it to share nodes")
    plan.put(("jobs", "missingRequests"), "whole-node", BRIDGE)
    allow_all_annotations(plan, BRIDGE)
    plan.put(("gangs", "podGroups"), ["scheduling.k8s.io", "scheduling.x-k8s.io"], BRIDGE)
    plan.note(
        BRIDGE,
        "gangs.podGroups makes the Pods of a PodGroup a gang, as before; apply components/pod-groups, which allows to "
        "read them. Groups of a LeaderWorkerSet are gangs without any setting, Jobs and JobSets where they say so "
        "(docs/gangs.md)",
    )
    plan.note(BRIDGE, FENCED_GANGS)
    plan.note(
        BRIDGE,
        "the taint slinky.slurm.net/managed-node is nodes.managedTaint here, off until it is set; remove the old one",
    )
    plan.note(
        BRIDGE,
        "Nodes with the label scheduler.slinky.slurm.net/external-node were registered in Slurm; nodes.external does "
        "that here (docs/migrate.md)",
    )
