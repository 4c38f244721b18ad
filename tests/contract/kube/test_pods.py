"""Binding, evicting and deleting Pods."""

from __future__ import annotations

from typing import Any

import pytest

from extender.kube.connection import MERGE_PATCH, STRATEGIC_PATCH
from extender.kube.errors import OutcomeUnknown, Throttled
from simulator.kube.objects import Json, parse_timestamp
from tests.builders.kube_sites import NODE, Caller, until
from tests.contract.kube.conftest import OpenSite

OTHER_UID = "11111111-2222-3333-4444-555555555555"


def a_binding(name: str, node: str = NODE, uid: str = "", **annotations: str) -> Json:
    meta: Json = {"name": name, "annotations": annotations} | ({"uid": uid} if uid else {})
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": meta,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def an_eviction(name: str, namespace: str, uid: str = "") -> Json:
    eviction: Json = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    return eviction | ({"deleteOptions": {"preconditions": {"uid": uid}}} if uid else {})


def conditions(pod: Json) -> dict[str, tuple[str, str | None]]:
    return {each["type"]: (each["status"], each.get("reason")) for each in pod["status"]["conditions"]}


async def hold(caller: Caller, name: str) -> None:
    """Keep a Pod from going by a finalizer."""
    patch = {"metadata": {"finalizers": ["x.io/hold"]}}
    assert await caller.code("PATCH", f"{caller.pods}/{name}", patch, MERGE_PATCH) == (200, "")


async def test_a_binding_sets_node_annotations_and_condition(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        made = await caller.add_pod("p", annotations={"a": "1"})
        code, status = await caller.call(
            "POST", f"{caller.pods}/p/binding", a_binding("p", uid=made["metadata"]["uid"], b="2")
        )
        assert (code, status["kind"], status["status"]) == (201, "Status", "Success")
        pod = await caller.pod("p")
        assert pod["spec"]["nodeName"] == NODE
        assert pod["metadata"]["annotations"] == {"a": "1", "b": "2"}
        assert conditions(pod)["PodScheduled"] == ("True", None)


async def test_a_bound_pod_is_not_bound_again_even_to_its_own_node(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p")
        assert await caller.code("POST", f"{caller.pods}/p/binding", a_binding("p")) == (201, "")
        for node in (NODE, "elsewhere"):
            code, answer = await caller.call("POST", f"{caller.pods}/p/binding", a_binding("p", node))
            assert (code, answer["reason"]) == (409, "Conflict")
            assert f'already assigned to node "{NODE}"' in answer["message"]


async def test_a_binding_of_another_uid_does_nothing(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p")
        code, answer = await caller.call("POST", f"{caller.pods}/p/binding", a_binding("p", uid=OTHER_UID))
        assert (code, answer["reason"]) == (409, "Conflict")
        assert "Precondition failed: UID" in answer["message"]
        assert "nodeName" not in (await caller.pod("p"))["spec"]


async def test_gated_ending_and_missing_pods_are_not_bound(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("gated", gates=["x.io/gate"])
        code, answer = await caller.call("POST", f"{caller.pods}/gated/binding", a_binding("gated"))
        assert (code, "non-empty .spec.schedulingGates" in answer["message"]) == (409, True)
        await caller.add_pod("ending")
        await hold(caller, "ending")
        assert (await caller.code("DELETE", f"{caller.pods}/ending"))[0] == 200
        code, answer = await caller.call("POST", f"{caller.pods}/ending/binding", a_binding("ending"))
        assert (code, "is being deleted" in answer["message"]) == (409, True)
        assert await caller.code("POST", f"{caller.pods}/none/binding", a_binding("none")) == (404, "NotFound")


async def test_a_binding_without_a_node_or_of_another_name_is_invalid(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p")
        assert (await caller.code("POST", f"{caller.pods}/p/binding", a_binding("q")))[0] == 400
        with pytest.raises(OutcomeUnknown, match=r"500 target.name: Required value"):
            await caller.code("POST", f"{caller.pods}/p/binding", a_binding("p", node=""))


async def test_an_eviction_begins_the_end_and_writes_its_own_condition(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        pod = await caller.running_pod("p", grace_s=20)
        body = an_eviction("p", site.namespace, pod["metadata"]["uid"])
        code, status = await caller.call("POST", f"{caller.pods}/p/eviction", body)
        assert (code, status["status"]) == (201, "Success")
        pod = await caller.pod("p")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 20
        assert conditions(pod)["DisruptionTarget"] == ("True", "EvictionByEvictionAPI")


async def test_an_eviction_overwrites_a_condition_that_was_there(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.running_pod("p", grace_s=20)
        ours = {"type": "DisruptionTarget", "status": "True", "reason": "Ours"}
        patch = {"status": {"conditions": [ours]}}
        strategic = "application/strategic-merge-patch+json"
        assert await caller.code("PATCH", f"{caller.pods}/p/status", patch, strategic) == (200, "")
        await caller.call("POST", f"{caller.pods}/p/eviction", an_eviction("p", site.namespace))
        assert conditions(await caller.pod("p"))["DisruptionTarget"] == ("True", "EvictionByEvictionAPI")
        assert await caller.code("PATCH", f"{caller.pods}/p/status", patch, strategic) == (200, "")
        assert conditions(await caller.pod("p"))["DisruptionTarget"] == ("True", "Ours")


async def test_an_eviction_of_another_uid_or_of_nothing_does_nothing(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.running_pod("p")
        body = an_eviction("p", site.namespace, OTHER_UID)
        assert await caller.code("POST", f"{caller.pods}/p/eviction", body) == (409, "Conflict")
        assert "deletionTimestamp" not in (await caller.pod("p"))["metadata"]
        body = an_eviction("none", site.namespace)
        assert await caller.code("POST", f"{caller.pods}/none/eviction", body) == (404, "NotFound")


async def test_a_budget_refuses_evictions_but_not_deletions(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.running_pod("p", labels={"app": "x"}, grace_s=20)
        budget: dict[str, Any] = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
        }
        path = f"/apis/policy/v1/namespaces/{site.namespace}/poddisruptionbudgets"
        assert await caller.code("POST", path, budget) == (201, "")
        body = an_eviction("p", site.namespace)
        assert await caller.code("POST", f"{caller.pods}/p/eviction", body) == (429, "TooManyRequests")
        # The budget is asked first: another UID is not found out.
        body = an_eviction("p", site.namespace, OTHER_UID)
        assert await caller.code("POST", f"{caller.pods}/p/eviction", body) == (429, "TooManyRequests")
        assert (await caller.code("DELETE", f"{caller.pods}/p"))[0] == 200
        # A Pod that ends already is evicted again without asking.
        assert await caller.code("POST", f"{caller.pods}/p/eviction", an_eviction("p", site.namespace)) == (201, "")


async def test_a_budget_says_when_to_retry_only_before_it_was_counted(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.running_pod("p", labels={"app": "x"}, grace_s=20)
        path = f"/apis/policy/v1/namespaces/{site.namespace}/poddisruptionbudgets"
        meta, spec = {"name": "b"}, {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
        budget: Json = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
        assert await caller.code("POST", path, budget) == (201, "")

        async def seconds() -> float:
            body = an_eviction("p", site.namespace)
            with pytest.raises(Throttled) as refused:
                await site.connection.request("POST", f"{caller.pods}/p/eviction", body=body)
            return refused.value.retry_after_s

        assert await seconds() == 10
        for allowed in (0, 1):  # as the controller of budgets does
            counted = {"observedGeneration": 1, "disruptionsAllowed": allowed} | dict.fromkeys(
                ("currentHealthy", "desiredHealthy", "expectedPods"), 1
            )
            patch = {"status": counted}
            assert await caller.code("PATCH", f"{path}/b/status", patch, MERGE_PATCH) == (200, "")
            if not allowed:
                assert await seconds() == 0
        assert await caller.code("POST", f"{caller.pods}/p/eviction", an_eviction("p", site.namespace)) == (201, "")


async def test_a_pod_that_ends_is_evicted_with_a_condition_and_perhaps_a_shorter_grace(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.running_pod("p", grace_s=60)
        assert (await caller.code("DELETE", f"{caller.pods}/p", {"gracePeriodSeconds": 50}))[0] == 200
        ours = {"type": "DisruptionTarget", "status": "True", "reason": "Ours"}
        patch = {"status": {"conditions": [ours]}}
        assert await caller.code("PATCH", f"{caller.pods}/p/status", patch, STRATEGIC_PATCH) == (200, "")
        for grace, left in ((None, 50), (55, 50), (40, 40), (30, 30)):
            options = {} if grace is None else {"gracePeriodSeconds": grace}
            body = an_eviction("p", site.namespace) | {"deleteOptions": options}
            assert await caller.code("POST", f"{caller.pods}/p/eviction", body) == (201, "")
            assert (await caller.pod("p"))["metadata"]["deletionGracePeriodSeconds"] == left
        assert conditions(await caller.pod("p"))["DisruptionTarget"] == ("True", "EvictionByEvictionAPI")


async def test_an_unbound_pod_is_removed_at_once(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p", grace_s=30)
        assert (await caller.code("DELETE", f"{caller.pods}/p"))[0] == 200
        assert await caller.code("GET", f"{caller.pods}/p") == (404, "NotFound")


async def test_a_bound_pod_is_given_its_grace_which_can_only_be_shortened(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.running_pod("p", grace_s=60)
        now = site.clock.wall()
        _, ending = await caller.call("DELETE", f"{caller.pods}/p", {"gracePeriodSeconds": 40})
        meta = ending["metadata"]
        assert meta["deletionGracePeriodSeconds"] == 40
        assert abs(parse_timestamp(meta["deletionTimestamp"]) - now - 40) < 3
        for grace, left in ((50, 40), (30, 30), (30, 30), (35, 30), (20, 20)):
            await caller.call("DELETE", f"{caller.pods}/p", {"gracePeriodSeconds": grace})
            meta = (await caller.pod("p"))["metadata"]
            assert meta["deletionGracePeriodSeconds"] == left
            # Each is counted from when the first one began.
            assert abs(parse_timestamp(meta["deletionTimestamp"]) - now - left) < 3
        await caller.call("DELETE", f"{caller.pods}/p", {"gracePeriodSeconds": 0})
        assert await caller.code("GET", f"{caller.pods}/p") == (404, "NotFound")


async def test_a_deletion_of_another_uid_does_nothing(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p")
        options = {"preconditions": {"uid": OTHER_UID}}
        assert await caller.code("DELETE", f"{caller.pods}/p", options) == (409, "Conflict")
        assert (await caller.code("GET", f"{caller.pods}/p"))[0] == 200


async def test_a_finalizer_keeps_a_pod_until_it_is_removed(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p")
        await hold(caller, "p")
        await caller.call("DELETE", f"{caller.pods}/p")
        meta = (await caller.pod("p"))["metadata"]
        assert meta["deletionGracePeriodSeconds"] == 0
        patch = {"metadata": {"finalizers": None}}
        await caller.call("PATCH", f"{caller.pods}/p", patch, MERGE_PATCH)
        assert await caller.code("GET", f"{caller.pods}/p") == (404, "NotFound")


async def test_kubelet_removes_an_ending_pod_within_its_grace(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.running_pod("p", grace_s=1)
        await caller.call("DELETE", f"{caller.pods}/p")

        async def gone() -> bool:
            return (await caller.code("GET", f"{caller.pods}/p"))[0] == 404

        await until(gone, "the Pod is gone")
