"""The API server, rights, gates, leaders, mounts and the mapping of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from extender.assembly.io_context import LoopClock
from extender.config.kubernetes import PodReadScope, Scope
from extender.config.load import parse
from extender.doctor.checks.files import mounts
from extender.doctor.checks.kubernetes import (
    NODE_LEASES,
    OWN,
    RIGHTS,
    fences,
    gates,
    leaders,
    nodes,
    rights,
    rights_in,
    scope,
    server,
)
from extender.doctor.facts import AdmissionObjects, Leader, Mount, Server
from extender.doctor.finding import Finding, Verdict
from extender.doctor.gather.kubernetes import gather_kubernetes, items
from extender.doctor.tools import Tools
from extender.domain.nodes.mapping import NodeMap
from extender.domain.wellknown import GATE
from extender.kube.connection import connect_plainly
from extender.kube.errors import ApiUnavailable
from simulator.network.aiohttp_connector import MemoryConnector
from simulator.network.asgi_server import serve
from simulator.network.memory import Network
from slurmclient import SlurmClient, StaticToken
from slurmclient.auth import TokenSource
from tests.builders.kustomize import CORE, ROOT

OK, WARNING, ERROR, SKIPPED = Verdict


def no_slurm(address: str, token: TokenSource) -> SlurmClient:
    raise AssertionError(f"{address} is not to be asked")


def verdicts(found: Iterable[Finding]) -> list[Verdict]:
    return [one.verdict for one in found]


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("v1.36.3", OK), ("v1.32.1-eks", OK), ("v1.31.9", ERROR), ("v1.99.0", WARNING), ("", WARNING)],
)
def test_the_version_of_kubernetes_is_judged(version: str, verdict: Verdict) -> None:
    assert verdicts(server(Server("https://k", version, "me"))) == [verdict]


def test_an_api_server_that_is_not_reached_is_wrong() -> None:
    assert verdicts(server(Server(error="refused"))) == [ERROR]


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.schedulerName in ['other']",
        'object.spec.schedulerName == "slurm" && false',
        "object.spec.schedulerName != 'slurm'",
        "'other' == object.spec.schedulerName",
    ],
)
def test_a_condition_that_cannot_be_read_is_no_gate_that_was_seen(expression: str) -> None:
    policy = {
        "metadata": {"name": "p"},
        "spec": {"matchConditions": [{"name": "managed", "expression": expression}], "mutations": [GATE]},
    }
    given = AdmissionObjects([policy], [{"spec": {"policyName": "p"}}], [])
    [one] = gates(given, "slurm", False)
    assert (one.verdict, expression in one.seen) == (SKIPPED, True)


@pytest.mark.looptime
@pytest.mark.parametrize("body", [b"<html>log in first</html>", b"[]", b""])
async def test_what_answers_in_the_place_of_the_api_server_is_not_taken_for_it(body: bytes) -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    network = Network()
    config = parse("apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: t}\n", "f")
    async with serve(network, app, "kube", 6443):
        connection = connect_plainly("http://kube:6443", lambda: "t", lambda: MemoryConnector(network))
        try:
            found = await gather_kubernetes(config, Tools(StaticToken("t"), no_slurm, LoopClock(), connection))
            with pytest.raises(ApiUnavailable, match="the answer is no list"):
                await items(connection, "/apis/apps/v1/deployments")
        finally:
            await connection.close()
    [one] = server(found.server)
    assert (one.verdict, "is not the answer of an API server" in one.seen) == (ERROR, True)


def test_the_reviewed_rights_are_those_of_the_shipped_manifests() -> None:
    shipped = set()
    for document in yaml.safe_load_all((CORE / "rbac-extender.yaml").read_text()):
        if document["kind"] not in {"Role", "ClusterRole"}:
            continue
        namespace = {"slurm-extender": OWN, NODE_LEASES: NODE_LEASES}.get(document["metadata"].get("namespace"), "")
        shipped |= {
            (verb, group, resource, namespace, re.sub("^slurm-extender(?=$|-checkpoints)", "{lease}", name))
            for rule in document["rules"]
            for verb in rule["verbs"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for name in rule.get("resourceNames", [""])
        }
    assert {(one.verb, one.group, one.resource, one.namespace, one.name) for one in RIGHTS} == shipped


def test_where_namespaces_are_named_only_reading_and_nodes_are_rights_everywhere() -> None:
    assert rights_in(Scope()) == RIGHTS
    wanted_rights = rights_in(Scope(namespaces=("ml", "web")))
    everywhere = {(one.resource, one.verb) for one in wanted_rights if not one.namespace}
    assert everywhere == {
        *(("pods", verb) for verb in ("get", "list", "watch")),
        *(("nodes", verb) for verb in ("get", "list", "watch", "patch")),
        *(("namespaces", verb) for verb in ("get", "list", "watch")),
        *(("deviceclasses", verb) for verb in ("list", "watch")),
        ("nodes/status", "patch"),
    }
    assert {one.namespace for one in wanted_rights if one.resource == "pods/binding"} == {"ml", "web"}


def test_where_pods_are_read_in_namespaces_no_right_on_other_pods_is_needed() -> None:
    wanted_rights = rights_in(Scope(namespaces=("ml", "web"), read_pods=PodReadScope.NAMESPACES))
    assert not [one for one in wanted_rights if one.resource.startswith("pods") and not one.namespace]
    assert {(one.verb, one.namespace) for one in wanted_rights if one.resource == "pods"} == {
        (verb, name) for verb in ("get", "list", "watch", "patch", "delete") for name in ("ml", "web")
    }


def test_the_cost_of_reading_some_namespaces_is_named() -> None:
    [one] = scope(("ml", "web"))
    assert one.verdict is WARNING
    assert "only the Pods of ml, web are read" in one.seen


def test_a_right_that_is_missing_is_named_with_what_it_is_for() -> None:
    may = dict.fromkeys(RIGHTS, True)
    assert verdicts(rights(may, "me", "")) == [OK]
    binding = next(one for one in RIGHTS if one.resource == "pods/binding")
    [one] = rights(may | {binding: False}, "me", "")
    assert one.verdict is ERROR
    assert "me may not create pods/binding: no Pod is bound" in one.seen


def test_rights_that_cannot_be_reviewed_are_not_judged() -> None:
    assert verdicts(rights(None, "me", "403")) == [SKIPPED]


def shipped(path: str) -> list[Mapping[str, Any]]:
    return [one for one in yaml.safe_load_all((ROOT / "manifests" / "components" / path).read_text()) if one]


POLICY, BINDING = shipped("gate-policy/policy.yaml")
OPT_IN, OPT_IN_BINDING = shipped("namespace-opt-in/policy.yaml")
[HOOK] = shipped("gate-webhook/webhook.yaml")


def with_authority(hook: Mapping[str, Any], **more: Any) -> Mapping[str, Any]:
    """As cert-manager leaves it."""
    trusted = [{**one, "clientConfig": {**one["clientConfig"], "caBundle": "eA=="}, **more} for one in hook["webhooks"]]
    return {**hook, "webhooks": trusted}


@pytest.mark.parametrize(
    ("given", "scheduler", "served", "said"),
    [
        (AdmissionObjects([POLICY], [BINDING], []), "slurm", False, [OK]),
        (AdmissionObjects([POLICY], [], []), "slurm", False, [ERROR]),
        (AdmissionObjects([POLICY, OPT_IN], [BINDING, OPT_IN_BINDING], []), "slurm", False, [OK]),
        (AdmissionObjects([OPT_IN], [OPT_IN_BINDING], []), "slurm", False, [WARNING]),
        (AdmissionObjects([POLICY], [BINDING], []), "other", False, [ERROR]),
        (AdmissionObjects([], [], [with_authority(HOOK)]), "slurm", True, [OK]),
        (AdmissionObjects([], [], [HOOK]), "slurm", True, [ERROR]),
        (AdmissionObjects([], [], [with_authority(HOOK)]), "slurm", False, [ERROR]),
        (AdmissionObjects([], [], [with_authority(HOOK)]), "other", True, [ERROR]),
        (AdmissionObjects([], [], [with_authority(HOOK, failurePolicy="Fail")]), "slurm", True, [WARNING, OK]),
        (AdmissionObjects([], [], []), "slurm", False, [WARNING]),
        (AdmissionObjects(None, None, None), "slurm", False, [SKIPPED]),
    ],
)
def test_who_puts_the_gate_on_pods_is_said(
    given: AdmissionObjects, scheduler: str, served: bool, said: list[Verdict]
) -> None:
    assert verdicts(gates(given, scheduler, served)) == said


ONE = Leader("a/slurm-extender", "a-0", "slurm", alive=True)


def test_two_extenders_that_lead_for_one_scheduler_name_are_wrong() -> None:
    two = [ONE, replace(ONE, lease="b/slurm-extender", holder="b-0")]
    [one] = leaders(two, "slurm", "a/slurm-extender")
    assert one.verdict is ERROR
    assert "a/slurm-extender held by a-0; b/slurm-extender held by b-0" in one.seen
    assert verdicts(leaders([ONE, replace(two[1], scheduler="other")], "slurm", "")) == [OK]
    assert verdicts(leaders([ONE, replace(two[1], alive=False)], "slurm", "")) == [OK]


def test_leases_that_are_not_there_or_not_shown_prove_nothing() -> None:
    assert verdicts(leaders([], "slurm", "a/b")) == [SKIPPED]
    assert verdicts(leaders(None, "slurm", "a/b")) == [SKIPPED]


SECRET = Mount("slurm-extender", "Secret", "slurm-extender", "/s", True, frozenset({"token"}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([SECRET], [OK]),
        ([replace(SECRET, there=False, keys=frozenset())], [ERROR]),
        ([replace(SECRET, there=False, keys=frozenset(), optional=True)], [ERROR]),
        ([replace(SECRET, keys=frozenset({"tokn"}))], [ERROR]),
        ([replace(SECRET, there=None, keys=None)], [SKIPPED]),
        (None, [SKIPPED]),
    ],
)
def test_a_missing_secret_or_key_is_found(given: list[Mount] | None, said: list[Verdict]) -> None:
    assert verdicts(mounts(given, [("slurm.tokenFile", "/s/token"), ("hooks.keyFile", "/remote/key")])) == said


def test_a_missing_secret_is_named_with_what_follows() -> None:
    [one] = mounts([replace(SECRET, there=False)], [])
    assert "Secret slurm-extender, which slurm-extender mounts at /s, does not exist" in one.seen
    assert "ContainerCreating" in one.advice


def test_nodes_without_a_pair_are_wrong_and_problems_are_named() -> None:
    pairs = NodeMap({"s1": "k1"}, {"k1": "s1"}, known=True)
    assert verdicts(nodes(pairs, 1, 1)) == [OK]
    assert verdicts(nodes(replace(pairs, without_kubernetes=tuple("abcdefg")), 1, 8)) == [WARNING]
    assert verdicts(nodes(replace(pairs, problems=("stated twice",)), 1, 1)) == [ERROR, OK]
    assert verdicts(nodes(NodeMap(known=True), 3, 2)) == [ERROR]


def test_slurm_nodes_for_which_the_fence_script_has_not_called_are_named() -> None:
    (found,) = fences(("s1", "s2", "s3"), frozenset({"s2"}), "")
    assert found.verdict is WARNING
    assert "2 of 3 Slurm nodes: s1, s3" in found.seen
    (found,) = fences(("s1",), frozenset({"s1"}), "")
    assert (found.verdict, "has called" in found.seen) == (OK, True)
    assert verdicts(fences((), frozenset(), "")) == []


def test_evidence_whose_proof_cannot_be_verified_is_called_an_annotation() -> None:
    (found,) = fences(("s1",), frozenset({"s1"}), "hooks.keyFile is not set")
    assert found.verdict is OK
    assert "each of 1 Slurm nodes has an annotation of the fence script" in found.seen
    assert "not verified: hooks.keyFile is not set" in found.seen
