"""Causes that keep a member of a gang on the real parts from its Node: at the Node, or a rejected Binding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from tests.builders.changed_nodes import changed
from tests.builders.stage import Stage

SIZE = 3

REFUSED_OF = 8
"""Members of a gang of which the API server refuses one Binding."""

CPUS_OF_NODE = 64
HELD_S = 3.0
"""So long the cause lasts. It is longer than a call of `/bind` is held, and shorter than `gangs.bindWithin`."""

KNOWN_S = 0.5
"""Within this time the watches of the extender and of kube-scheduler show a change."""

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICY = "e2e-refused-bindings"
Cause = Callable[[Stage, str], AbstractContextManager[None]]


@contextmanager
def tainted(stage: Stage, node: str) -> Iterator[None]:
    taint = {"key": "e2e/gang", "value": "x", "effect": "NoSchedule"}
    with changed(stage.site, {node: {"spec": {"taints": [taint]}}}):
        yield


@contextmanager
def cordoned(stage: Stage, node: str) -> Iterator[None]:
    with changed(stage.site, {node: {"spec": {"unschedulable": True}}}):
        yield


@contextmanager
def taken_by_a_foreign_pod(stage: Stage, node: str) -> Iterator[None]:
    site = stage.site
    options = {"scheduler": "another", "nodeName": node, "cpus": CPUS_OF_NODE - 1, "memory": "1Gi"}
    foreign = site.pod("foreign", stage.namespace, **options)
    yield
    site.delete(foreign)
    site.gone(foreign)


CAUSES: Mapping[str, Cause] = {"taint": tainted, "cordon": cordoned, "foreign-pod": taken_by_a_foreign_pod}


@contextmanager
def refused_binding(stage: Stage, name: str) -> Iterator[None]:
    """Make the API server reject the Binding of this Pod; other Pods of its namespace are bound."""
    kube, probe = stage.site.kube, f"/api/v1/namespaces/{stage.namespace}/pods/probe/binding"
    said = f"request.namespace != '{stage.namespace}' || !(request.name in ['{name}', 'probe'])"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    policy = {
        "metadata": {"name": POLICY},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": said, "message": "this Pod must not be bound", "reason": "Forbidden"}],
        },
    }
    use = {"metadata": {"name": POLICY}, "spec": {"policyName": POLICY, "validationActions": ["Deny"]}}
    body = {"metadata": {"name": "probe"}, "target": {"kind": "Node", "name": "none"}}

    def refuses() -> bool:
        return bool(kube.api("POST", probe, body)[0] == 403)

    stage.site.create(f"{ADMISSION}/validatingadmissionpolicies", policy)
    stage.site.create(f"{ADMISSION}/validatingadmissionpolicybindings", use)
    try:
        stage.site.wait_for(refuses, "the API server refuses the Binding")
        yield
    finally:
        kube.api("DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/{POLICY}")
        kube.api("DELETE", f"{ADMISSION}/validatingadmissionpolicies/{POLICY}")
        stage.site.wait_for(lambda: not refuses(), "the API server refuses no Binding any more")
