"""Print `manifests/chart/values.schema.json`: the chart's own values, and the configuration's from `extender.config`.

Run from the top of the repository: `python -m docs.generate.values_schema > manifests/chart/values.schema.json`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from extender.config.schema_keys import CONFIGURATION, POLICY, KeyBook
from extender.domain.gangs.pod_groups import PodGroupApi

Schema = dict[str, Any]

_SAID_BY_THE_CHART = ("apiVersion", "kind")


def _group(description: str, *required: str, **properties: Schema) -> Schema:
    """Describe a group. `required`: keys that the templates need; a null in values removes a default."""
    group: Schema = {
        "type": "object",
        "description": description,
        "additionalProperties": False,
        "properties": properties,
    }
    return {**group, "required": list(required)} if required else group


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _one_of(description: str, *words: str) -> Schema:
    return {"type": "string", "description": description, "enum": list(words)}


def _yes_or_no(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _count(description: str) -> Schema:
    return {"type": "integer", "description": description, "minimum": 1}


def _image(whose: str, tag: str) -> Schema:
    return _group(
        f"The image of {whose}.",
        "repository",
        repository=_text("Where it comes from, without a tag."),
        tag=_text(f'Its tag; "": {tag}.'),
        pullPolicy=_one_of("When it is pulled.", "Always", "IfNotPresent", "Never"),
    )


def _resources(whose: str) -> Schema:
    amounts = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
    return _group(
        f"What {whose} asks for and may use at most, as in a container.",
        requests={**amounts, "description": "What it asks for."},
        limits={**amounts, "description": "What it may use at most."},
    )


def _texts(description: str) -> Schema:
    return {"type": "object", "description": description, "additionalProperties": {"type": "string"}}


def _list(description: str, of: Schema) -> Schema:
    return {"type": "array", "description": description, "items": of}


_ANYTHING: Schema = {"type": "object"}
"""A part of a Pod, which the API server checks."""

OWN: Schema = {
    "image": _image("the extender", "the chart's appVersion"),
    "imagePullSecrets": {
        "type": "array",
        "description": "Secrets to pull images with, as in a Pod.",
        "items": _group("One of them.", name=_text("Its name.", minLength=1)),
    },
    "replicas": _count("How many extenders; one leads."),
    "secretName": _text("The Secret with the key token, and others that config names as files.", minLength=1),
    "hooksKeySecret": _text(
        "The Secret with the key hooks-key, which the chart makes once and keeps. Empty: hooks-key is in secretName."
    ),
    "tokenKey": _text("The key of secretName with the token of Slurm.", minLength=1),
    "hooksKey": _text("The key of hooksKeySecret.", minLength=1),
    "podAnnotations": _texts("Annotations of every Pod of the chart."),
    "podLabels": _texts("Labels of every Pod of the chart."),
    "serviceAccounts": _group(
        "The ServiceAccounts slurm-extender and slurm-scheduler.",
        "create",
        create=_yes_or_no("Make them; without it they must be there."),
        annotations=_texts("Annotations of both."),
    ),
    "extraArgs": _list("More arguments of `serve`.", {"type": "string"}),
    "extraEnv": _list("More environment variables of the extender, as in a Pod.", _ANYTHING),
    "extraVolumes": _list("More volumes of the extender's Pods, as in a Pod.", _ANYTHING),
    "extraVolumeMounts": _list("More mounts of the extender's container, as in a Pod.", _ANYTHING),
    "nodeSelector": {
        "type": "object",
        "description": "Labels of the Nodes on which the Pods of the chart may run.",
        "additionalProperties": {"type": "string"},
    },
    "tolerations": {
        "type": "array",
        "description": "Taints of Nodes that the Pods of the chart bear, as in a Pod.",
        "items": _group(
            "One of them.",
            key=_text("Of the taint; none: of any."),
            operator=_one_of("How value is compared.", "Exists", "Equal"),
            value=_text("Of the taint."),
            effect=_one_of("Which effect; none: any.", "NoSchedule", "PreferNoSchedule", "NoExecute"),
            tolerationSeconds={"type": "integer", "description": "For how long, with NoExecute."},
        ),
    },
    "affinity": {
        "type": "object",
        "description": "Of the Pods of the chart, as in a Pod.",
        "additionalProperties": False,
        "properties": {
            name: {"type": "object", "description": "As in a Pod."}
            for name in ("nodeAffinity", "podAffinity", "podAntiAffinity")
        },
    },
    "priorityClassName": _text("The PriorityClass of every Pod of the chart that serves."),
    "resources": _resources("the extender"),
    "scheduler": _group(
        "kube-scheduler.",
        "image",
        replicas=_count("How many; one leads."),
        image=_image("kube-scheduler", "the cluster's version"),
        featureGates={
            "type": ["string", "null"],
            "description": "Its --feature-gates; null: what the cluster's version needs; empty: none.",
        },
        extraArgs=_list("More arguments of kube-scheduler.", {"type": "string"}),
        resources=_resources("kube-scheduler"),
    ),
    "tls": _one_of("Mutual TLS between kube-scheduler and the extender.", "none", "certificates", "cert-manager"),
    "schedulingGate": _one_of(
        "What puts the scheduling gate on Pods; auto: a policy where the API server serves it, else the webhook.",
        *("auto", "policy", "webhook", "none"),
    ),
    "podGroups": {
        "type": "array",
        "description": "API groups whose PodGroups make gangs; the extender gets the rights that it needs for them.",
        "items": {"enum": list(PodGroupApi)},
        "uniqueItems": True,
    },
    "devices": _yes_or_no("Give the extender the rights that `config.devices` needs."),
    "cpus": {
        "type": "integer",
        "minimum": 0,
        "description": "Number of Nodes on which a Job writes the order of the CPUs; 0: no Job.",
    },
    "noGrowth": _yes_or_no("Refuse to resize Pods to more than their jobs hold."),
    "writesPolicy": _yes_or_no("Limit what the extender's ServiceAccount can write to what the extender writes."),
    "maxGraceSeconds": {
        "type": ["integer", "null"],
        "minimum": 1,
        "description": "The longest grace of Pods of this scheduler, of their deletion and of evictions; null: any.",
    },
    "noForceDeletion": _yes_or_no("Refuse to delete placed Pods by force without the right to it."),
    "hooks": _group(
        "How Slurm's nodes reach the hooks.",
        "type",
        type=_one_of("The type of the Service.", "ClusterIP", "NodePort", "LoadBalancer"),
        nodePort={
            "type": ["integer", "null"],
            "description": "With NodePort: the port; null: 30800.",
            "minimum": 1,
            "maximum": 65535,
        },
        annotations=_texts("Annotations of the Service, as a cloud's load balancer wants them."),
        loadBalancerSourceRanges=_list(
            "With LoadBalancer: the only addresses that may call; empty: any.", {"type": "string"}
        ),
        loadBalancerClass=_text('With LoadBalancer: its class; "": the default one.'),
    ),
    "networkPolicy": _group(
        "The NetworkPolicy of the extender: kube-scheduler and the replicas alone reach the scheduling port.",
        "enabled",
        enabled=_yes_or_no("Whether there is one; `closed` needs it."),
        extraIngress=_list("More rules of its ingress, as in a NetworkPolicy.", _ANYTHING),
    ),
    "disruptionBudget": _group(
        "The PodDisruptionBudget of the extender.",
        "enabled",
        "maxUnavailable",
        enabled=_yes_or_no("Whether there is one."),
        maxUnavailable={
            "type": ["integer", "string"],
            "description": "How many replicas, or which part of them (50%), a drain of nodes may take at a time.",
            "minimum": 1,
            "pattern": "^[0-9]+%$",
        },
    ),
    "closed": _yes_or_no("Close everything that is not named by NetworkPolicies, both ways."),
    "prometheus": _yes_or_no("PodMonitor and ServiceMonitor of the Prometheus operator."),
    "monitors": _group(
        "The monitors of prometheus, and the rules of alerts.",
        "labels",
        labels=_texts("Their labels, by which a Prometheus selects them."),
        interval=_text('How often they are scraped; "": as Prometheus says.'),
    ),
    "dashboardLabels": _texts("Labels of the ConfigMap with the dashboard."),
    "dashboardAnnotations": _texts("Annotations of the ConfigMap with the dashboard, such as Grafana's folder."),
    "alerts": _yes_or_no("PrometheusRule of the Prometheus operator; docs/runbooks has a page for each alert."),
    "site": _text(
        'Address at which the pages of `make site` are served, for the links of the alerts; "": they have none.',
        pattern="^(https?://[^\\s]+)?$",
    ),
    "dashboard": _yes_or_no("A ConfigMap with a dashboard for Grafana."),
    "createNamespace": _yes_or_no("Make the Namespace, too."),
}


_NEEDED = (
    *("config", "disruptionBudget", "hooks", "hooksKey", "image", "monitors", "networkPolicy", "scheduler"),
    *("schedulingGate", "secretName", "serviceAccounts", "tls", "tokenKey"),
)
"""What the templates cannot do without."""


def render() -> str:
    """The schema as it is kept."""
    definitions: Schema = {}
    config = _document(CONFIGURATION, "Configuration", definitions)
    policy = _document(POLICY, "Policy", definitions)
    # What else the file does not say comes from the environment, and what is missing is found at the start.
    config["required"] = ["slurm"]
    properties = {
        **OWN,
        "config": {
            **config,
            "description": "The configuration, without apiVersion and kind (docs/reference/configuration.md).",
        },
        "podPolicy": {
            "description": "A policy for Pods, without apiVersion and kind (docs/policy.md); null: none.",
            "anyOf": [{"type": "null"}, policy],
        },
        "global": {"type": "object", "description": "What a chart that contains this one says to all; not used."},
    }
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the chart slurm-extender",
        "type": "object",
        "additionalProperties": False,
        "properties": dict(sorted(properties.items())),
        "required": list(_NEEDED),
        "$defs": definitions,
    }
    return json.dumps(whole, indent=2) + "\n"


def _document(book: KeyBook, name: str, definitions: Schema) -> Schema:
    """A document's schema without what the chart says itself; its definitions go to `definitions`."""
    said: Schema = _renamed(dict(book.json_schema), name)
    definitions |= {f"{name}{key}": value for key, value in said.pop("$defs", {}).items()}
    said.pop("$schema")
    said["properties"] = {key: value for key, value in said["properties"].items() if key not in _SAID_BY_THE_CHART}
    said["required"] = [key for key in said.get("required", ()) if key not in _SAID_BY_THE_CHART]
    return said


def _renamed(value: Any, name: str) -> Any:
    """Return the schema with every reference changed to the definition in this document."""
    if isinstance(value, Mapping):
        return {
            key: one.replace("#/$defs/", f"#/$defs/{name}") if key == "$ref" else _renamed(one, name)
            for key, one in value.items()
        }
    return [_renamed(one, name) for one in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    sys.stdout.write(render())
