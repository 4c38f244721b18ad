"""Every workload that the manifests ship reaches what it talks to, and is reached, behind the NetworkPolicies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

import pytest

from lab.helm import template
from tests.builders.kustomize import COMPONENTS, Document, documents, render

Port = tuple[str, int | str]

DNS: list[Port] = [("UDP", 53), ("TCP", 53)]
API_SERVER: list[Port] = [("TCP", 443), ("TCP", 6443)]
SLURMRESTD: list[Port] = [("TCP", 6820)]
EXTENDER = "slurm-extender"

CALLS: dict[str, tuple[list[Port], dict[str, list[str]]]] = {
    "serve": (DNS + API_SERVER + SLURMRESTD, {EXTENDER: ["scheduler", "hooks"]}),
    "kube-scheduler": (DNS + API_SERVER, {EXTENDER: ["scheduler"]}),
    "generate certificates": (DNS + API_SERVER, {}),
    "generate cpu-order": (DNS + API_SERVER, {}),
    "doctor": (DNS + API_SERVER + SLURMRESTD, {EXTENDER: ["hooks"]}),
}
"""What each program calls: ports outside the namespace, and named ports of Pods in it."""

PROTECTED = {"scheduler"}
"""Ports that only the callers above reach; every other port of a container serves callers from outside."""


def shipped() -> list[Document]:
    """The objects of the core and of all components that add some."""
    folders = sorted(path.parent for path in COMPONENTS.glob("*/kustomization.yaml"))
    named = [(one, documents(one / "kustomization.yaml")[0].get("resources", ())) for one in folders]
    return [*render(), *(each for folder, names in named for name in names for each in documents(folder / name))]


def pods(value: Any) -> Iterator[Document]:
    """Every Pod and Pod template, of whatever kind of object."""
    if isinstance(value, dict):
        if "containers" in (value.get("spec") or {}):
            yield value
        for one in value.values():
            yield from pods(one)
    elif isinstance(value, list):
        for one in value:
            yield from pods(one)


def program(pod: Document) -> str:
    [container] = pod["spec"]["containers"]
    words = [*container.get("command", ()), *container.get("args", ())]
    return " ".join(takewhile(lambda word: not word.startswith("-"), words))


def selects(selector: Document, labels: dict[str, str]) -> bool:
    assert selector.keys() <= {"matchLabels", "matchExpressions"}
    for one in selector.get("matchExpressions", ()):
        assert one["operator"] == "In"
        if labels.get(one["key"]) not in one["values"]:
            return False
    wanted: dict[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels.items()


def allowed(found: Sequence[Document], way: str, labels: dict[str, str], peer: dict[str, str] | None, to: Port) -> bool:
    """Whether Pods with `labels` may be connected with `peer`, None being an address outside the namespace."""
    policies = [one["spec"] for one in found if one["kind"] == "NetworkPolicy"]
    policies = [one for one in policies if way in one["policyTypes"] and selects(one["podSelector"], labels)]
    rules = [rule for one in policies for rule in one.get(way.lower(), ())]
    side = {"Ingress": "from", "Egress": "to"}[way]
    return not policies or any(
        (side not in rule or (peer is not None and any(selects(one["podSelector"], peer) for one in rule[side])))
        and ("ports" not in rule or to in [(one["protocol"], one["port"]) for one in rule["ports"]])
        for rule in rules
    )


def cut_off(found: Sequence[Document]) -> list[str]:
    """Connections that a shipped workload needs and that no NetworkPolicy allows."""
    workloads = [(program(pod), pod["metadata"]["labels"], pod) for pod in pods(found)]
    missing = set()
    for name, labels, pod in workloads:
        outside, inside = CALLS[name]  # A new program says here what it calls.
        missing |= {f"{name} -> {port}" for port in outside if not allowed(found, "Egress", labels, None, port)}
        for callee, ports in inside.items():
            [called] = [other for _, other, _ in workloads if other["app.kubernetes.io/name"] == callee]
            for port in (("TCP", each) for each in ports):
                if not allowed(found, "Egress", labels, called, port):
                    missing.add(f"{name} -> {callee} {port}")
                if not allowed(found, "Ingress", called, labels, port):
                    missing.add(f"{callee} <- {name} {port}")
        for each in pod["spec"]["containers"][0].get("ports", ()):
            port = ("TCP", each["name"])
            if each["name"] not in PROTECTED and not allowed(found, "Ingress", labels, None, port):
                missing.add(f"{name} <- outside {port}")
    return sorted(missing)


def test_the_components_cut_no_workload_off() -> None:
    found = shipped()
    assert {program(pod) for pod in pods(found)} == CALLS.keys() - {"doctor"}
    assert cut_off(found) == []


def test_the_closed_namespace_is_closed_to_what_is_not_named() -> None:
    found, stranger = shipped(), {"app.kubernetes.io/name": "other"}
    for port in (*DNS, *API_SERVER, *SLURMRESTD, ("TCP", "scheduler")):
        assert not allowed(found, "Egress", stranger, None, port)
        assert not allowed(found, "Ingress", stranger, None, port)
    assert not allowed(found, "Ingress", {"app.kubernetes.io/name": EXTENDER}, stranger, ("TCP", "scheduler"))


@pytest.mark.lab
@pytest.mark.parametrize("gate", ["policy", "webhook"])
@pytest.mark.parametrize("more", [{}, {"closed": True}, {"networkPolicy": {"enabled": False}}], ids=str)
def test_the_chart_cuts_no_workload_off(more: dict[str, Any], gate: str) -> None:
    found = template({"cpus": 2, "devices": True, "prometheus": True, "schedulingGate": gate, **more})
    assert {program(pod) for pod in pods(found)} == CALLS.keys()
    assert cut_off(found) == []


@pytest.mark.lab
def test_network_policy_and_disruption_budget_follow_the_site() -> None:
    rule = {"from": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}], "ports": [{"port": "metrics"}]}
    found = {
        one["kind"]: one["spec"]
        for one in template({"networkPolicy": {"extraIngress": [rule]}, "disruptionBudget": {"maxUnavailable": "50%"}})
        if one["kind"] in {"NetworkPolicy", "PodDisruptionBudget"}
    }
    assert found["NetworkPolicy"]["ingress"][-1] == rule
    assert len(found["NetworkPolicy"]["ingress"]) == 3
    assert found["PodDisruptionBudget"]["maxUnavailable"] == "50%"
    off = {"networkPolicy": {"enabled": False}, "disruptionBudget": {"enabled": False}}
    none = template({**off, "schedulingGate": "webhook"})
    assert not [one for one in none if one["kind"] in found]


@pytest.mark.lab
def test_a_closed_namespace_opens_the_way_to_what_is_configured() -> None:
    slurm = {"addresses": ["https://a", "http://[::1]:6821", "http://b:6820", "http://c:6820", "unix:/run/s"]}
    traces = {"tracesEndpoint": "http://collector:4318"}
    hooks = {"url": "http://hooks.example.org:30800"}
    found = template({"closed": True, "config": {"slurm": slurm, "observability": traces, "hooks": hooks}})
    [out] = [one for one in found if one["metadata"]["name"] == "slurm-extender-out"]
    ports = [port["port"] for port in out["spec"]["egress"][2]["ports"]]
    assert ports == [443, 6821, 6820, 4318, 30800]
