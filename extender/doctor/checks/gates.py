"""Does anything put our scheduling gate on new Pods, so that waiting costs nothing?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extender.doctor.finding import Finding, ok, unseen, warning, wrong
from extender.domain.wellknown import GATE

CHECK = "gates"

ROUTE = "/admission/mutate"

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AdmissionObjects:
    """What admits Pods, as objects; () where the API server has no such kind. `None`: who asks may not look."""

    policies: Sequence[Json] | None = None
    bindings: Sequence[Json] | None = None
    webhooks: Sequence[Json] | None = None


def gates(given: AdmissionObjects, scheduler: str, *, webhook_served: bool) -> Iterator[Finding]:
    """`webhook_served`: the configuration has admission.bind."""
    policies = [one for one in given.policies or () if GATE in _text(one)]
    hooks = [hook for one in given.webhooks or () for hook in one.get("webhooks") or () if _path(hook) == ROUTE]
    for one in policies:
        yield from _policy(one, given.bindings, scheduler)
    for hook in hooks:
        yield from _webhook(hook, scheduler, webhook_served)
    if policies or hooks:
        return
    if given.policies is None or given.webhooks is None:
        yield unseen(
            CHECK,
            "who asks may not list MutatingAdmissionPolicies and MutatingWebhookConfigurations",
            "`kubectl get mutatingadmissionpolicies,mutatingwebhookconfigurations` as an administrator",
        )
        return
    yield warning(
        CHECK,
        f"nothing puts the gate {GATE} on Pods: kube-scheduler asks for each that waits again and again",
        "manifests/components/gate-policy (Kubernetes 1.36 and newer) or components/gate-webhook",
    )


def _policy(one: Json, bindings: Sequence[Json] | None, scheduler: str) -> Iterator[Finding]:
    name = str(one.get("metadata", {}).get("name", ""))
    said = f"MutatingAdmissionPolicy {name}"
    if bindings is not None and not any(each.get("spec", {}).get("policyName") == name for each in bindings):
        yield wrong(
            CHECK,
            f"{said} has no MutatingAdmissionPolicyBinding",
            "apply the component as a whole: unbound it does nothing",
        )
        return
    yield from _conditions(said, one.get("spec", {}).get("matchConditions") or (), scheduler)


def _webhook(hook: Json, scheduler: str, served: bool) -> Iterator[Finding]:
    said = f"webhook {hook.get('name', '')}"
    if not served:
        yield wrong(
            CHECK,
            f"{said} calls {ROUTE}, and admission.bind is not set: nobody answers",
            "set admission.bind, or take it away",
        )
        return
    if not hook.get("clientConfig", {}).get("caBundle"):
        yield wrong(
            CHECK,
            f"{said} has no caBundle: the API server does not believe our certificate, and Pods get no gate",
            "write the authority of admission.tls there; cert-manager does so by its annotation inject-ca-from",
        )
        return
    if hook.get("failurePolicy") == "Fail":
        yield warning(
            CHECK, f"{said} has failurePolicy Fail: without an extender no Pod is created", "failurePolicy: Ignore"
        )
    yield from _conditions(said, hook.get("matchConditions") or (), scheduler)


def _conditions(said: str, conditions: Sequence[Json], scheduler: str) -> Iterator[Finding]:
    given = [str(each.get("expression", "")).strip() for each in conditions]
    about = [text for text in given if "schedulerName" in text]
    names = {found[1] for text in about if (found := _ONE_NAME.fullmatch(text))}
    odd = [text for text in about if not _ONE_NAME.fullmatch(text)]
    if odd:
        yield unseen(
            CHECK,
            f"{said} has the condition {odd[0]}, which is not read here",
            f"create a Pod of {scheduler}, and see whether {GATE} is among its spec.schedulingGates",
        )
    elif names and names != {scheduler}:
        yield wrong(
            CHECK,
            f"{said} is for Pods of {', '.join(sorted(names))}, and scheduler.name is {scheduler}",
            f"write {scheduler} into its matchConditions",
        )
    else:
        yield ok(CHECK, f"{said} puts {GATE} on Pods of {scheduler}")


_ONE_NAME = re.compile(r"object\.spec\.schedulerName\s*==\s*['\"]([^'\"]+)['\"]")


def _path(hook: Json) -> str:
    client = hook.get("clientConfig") or {}
    service = client.get("service") or {}
    url = str(client.get("url") or "")
    return str(service.get("path") or "") if service else "/" + url.split("://", 1)[-1].partition("/")[2]


def _text(one: Json) -> str:
    return json.dumps(one, default=str)
