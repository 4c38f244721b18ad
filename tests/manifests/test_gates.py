"""The two ways to put our gate on Pods agree with the program and with each other."""

from __future__ import annotations

import re
from typing import Any

from extender.config.load import from_environment, load
from extender.domain.wellknown import (
    DEFAULT_SCHEDULER,
    GATE,
    MANAGED_TAINT,
    NATIVE_JOB_TAINT,
    OPT_IN_LABEL,
    OPT_OUT,
)
from extender.http.admission import router
from tests.builders.kustomize import CORE, ROOT, documents
from tests.builders.services import StillClock

COMPONENTS = ROOT / "manifests" / "components"
[POLICY, BINDING] = documents(COMPONENTS / "gate-policy" / "policy.yaml")
[TOLERATIONS, TOLERATING] = documents(COMPONENTS / "gate-policy" / "tolerations.yaml")
[WEBHOOKS] = documents(COMPONENTS / "gate-webhook" / "webhook.yaml")
[WEBHOOK, OPT_IN_WEBHOOK] = WEBHOOKS["webhooks"]
[SERVICE, NETWORK] = documents(COMPONENTS / "gate-webhook" / "service.yaml")
[PATCH] = documents(COMPONENTS / "gate-webhook" / "extender.yaml")
[CONTAINER] = PATCH["spec"]["template"]["spec"]["containers"]
NAME = load(CORE / "config.yaml", from_environment({})).scheduler.name


def conditions(of: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["expression"] for one in of["matchConditions"]}


def test_both_are_about_new_pods_of_the_scheduler_and_no_others() -> None:
    policy = POLICY["spec"]
    assert conditions(policy)["managed"] == conditions(WEBHOOK)["managed"] == f"object.spec.schedulerName == '{NAME}'"
    [rule] = policy["matchConstraints"]["resourceRules"]
    assert WEBHOOK["rules"] == [rule | {"scope": "Namespaced"}]
    assert (rule["resources"], rule["operations"]) == (["pods"], ["CREATE"])


[OPT_IN, OPT_IN_BINDING] = documents(COMPONENTS / "namespace-opt-in" / "policy.yaml")


def test_namespaces_are_put_on_slurm_by_a_label_with_the_name_of_the_scheduler_in_both_ways() -> None:
    policy = OPT_IN["spec"]
    chosen = {"matchLabels": {OPT_IN_LABEL: NAME}}
    assert policy["matchConstraints"]["namespaceSelector"] == OPT_IN_WEBHOOK["namespaceSelector"] == chosen
    assert OPT_IN_WEBHOOK["rules"] == [policy["matchConstraints"]["resourceRules"][0] | {"scope": "Namespaced"}]
    conditions_of_policy = conditions(policy)
    for name, expression in conditions(OPT_IN_WEBHOOK).items():
        assert conditions_of_policy[name] == expression
    assert f"'{OPT_OUT}'" in conditions_of_policy["not-opted-out"]
    assert f"'{DEFAULT_SCHEDULER}'" in conditions_of_policy["undecided"]
    # A Pod that passed would run beside Slurm.
    assert policy["failurePolicy"] == OPT_IN_WEBHOOK["failurePolicy"] == "Fail"
    assert OPT_IN_BINDING["spec"] == {"policyName": OPT_IN["metadata"]["name"]}


def test_the_policy_for_namespaces_gives_the_same_as_those_for_pods_of_the_scheduler() -> None:
    first, *tolerations = OPT_IN["spec"]["mutations"]
    text = first["applyConfiguration"]["expression"]
    assert f'schedulerName: "{NAME}"' in text
    assert f'schedulingGates: [Object.spec.schedulingGates{{name: "{GATE}"}}]' in text
    assert tolerations == TOLERATIONS["spec"]["mutations"]


def test_both_fail_open_and_are_called_again_for_what_others_change() -> None:
    for one in (POLICY["spec"], WEBHOOK):
        assert (one["failurePolicy"], one["reinvocationPolicy"]) == ("Ignore", "IfNeeded")


def test_the_policy_puts_the_gate_that_the_program_takes_away() -> None:
    [mutation] = POLICY["spec"]["mutations"]
    texts = [mutation["applyConfiguration"]["expression"], conditions(POLICY["spec"])["ungated"]]
    assert [re.findall(r'"([^"]*/[^"]*)"', text) for text in texts] == [[GATE], [GATE]]
    assert BINDING["spec"] == {"policyName": POLICY["metadata"]["name"]}


def test_the_policy_of_tolerations_is_about_the_same_pods_and_names_the_taints_that_the_program_puts_on() -> None:
    spec = TOLERATIONS["spec"]
    assert conditions(spec) == {"managed": conditions(POLICY["spec"])["managed"]}
    assert spec["matchConstraints"] == POLICY["spec"]["matchConstraints"]
    assert (spec["failurePolicy"], spec["reinvocationPolicy"]) == ("Ignore", "IfNeeded")
    texts = [one["jsonPatch"]["expression"] for one in spec["mutations"]]
    assert re.findall(r'"([^"]*\.io/[^"]*)"', "".join(texts)) == [MANAGED_TAINT, NATIVE_JOB_TAINT]
    assert TOLERATING["spec"] == {"policyName": TOLERATIONS["metadata"]["name"]}
    [kustomization] = documents(COMPONENTS / "gate-policy" / "kustomization.yaml")
    assert kustomization["resources"] == ["policy.yaml", "tolerations.yaml"]


def test_the_webhook_calls_a_route_of_the_port_that_listens() -> None:
    called = WEBHOOK["clientConfig"]["service"]
    assert called["path"] in {getattr(route, "path", "") for route in router([], None, 1, StillClock()).routes}
    assert (called["name"], called["namespace"]) == (SERVICE["metadata"]["name"], SERVICE["metadata"]["namespace"])
    [port] = SERVICE["spec"]["ports"]
    [listens] = CONTAINER["ports"]
    assert (called["port"], port["targetPort"]) == (port["port"], listens["name"])
    assert NETWORK["spec"]["ingress"] == [{"ports": [{"protocol": "TCP", "port": listens["name"]}]}]
    configuration = load(
        CORE / "config.yaml", from_environment({one["name"]: one["value"] for one in CONTAINER["env"]})
    )
    assert configuration.admission.bind is not None
    assert configuration.admission.bind.port == listens["containerPort"]
    assert configuration.admission.tls is not None
    [mount] = CONTAINER["volumeMounts"]
    assert configuration.admission.tls.certificate_file == f"{mount['mountPath']}/tls.crt"
    assert configuration.admission.tls.key_file == f"{mount['mountPath']}/tls.key"


def test_the_certificate_is_for_the_name_that_is_called() -> None:
    [certificate] = [
        one
        for one in documents(COMPONENTS / "cert-manager-webhook" / "certificate.yaml")
        if one["kind"] == "Certificate" and not one["spec"].get("isCA")
    ]
    called = WEBHOOK["clientConfig"]["service"]
    assert certificate["spec"]["dnsNames"] == [f"{called['name']}.{called['namespace']}.svc"]
    [volume] = PATCH["spec"]["template"]["spec"]["volumes"]
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    [patch] = documents(COMPONENTS / "cert-manager-webhook" / "webhook.yaml")
    assert patch["metadata"]["name"] == WEBHOOKS["metadata"]["name"]
    injected = patch["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert injected == f"{certificate['metadata']['namespace']}/{certificate['metadata']['name']}"
