"""Creating, reading, patching and deleting objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender.kube.connection import JSON, JSON_PATCH, MERGE_PATCH, METADATA_ONLY, STRATEGIC_PATCH
from extender.kube.errors import Unauthorized
from simulator.kube.objects import a_pod, parse_timestamp
from tests.builders.kube_sites import NODE, Caller
from tests.contract.kube.conftest import OpenSite


async def test_a_created_object_has_an_identity(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        pod = await caller.add_pod("p", gates=["x.io/gate"], labels={"a": "b"})
        meta = pod["metadata"]
        assert len(meta["uid"]) == 36
        assert int(meta["resourceVersion"]) > 0
        assert abs(parse_timestamp(meta["creationTimestamp"]) - site.clock.wall()) < 30
        assert pod["status"]["phase"] == "Pending"
        assert pod["spec"]["schedulingGates"] == [{"name": "x.io/gate"}]
        [condition] = pod["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")
        assert await caller.pod("p") == pod


async def test_requests_default_to_limits(open_site: OpenSite) -> None:
    async with open_site() as site:
        pod = a_pod("p", site.namespace)
        pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
        _, made = await Caller(site).call("POST", Caller(site).pods, pod)
        assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


async def test_what_is_not_there_is_not_found(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        assert await caller.code("GET", f"{caller.pods}/none") == (404, "NotFound")
        assert await caller.code("DELETE", f"{caller.pods}/none") == (404, "NotFound")
        assert await caller.code("PATCH", f"{caller.pods}/none", {}, MERGE_PATCH) == (404, "NotFound")
        assert await caller.code("POST", "/api/v1/namespaces/none/pods", a_pod("p", "none")) == (404, "NotFound")
        assert (await caller.code("GET", "/apis/nowhere.example.org/v1"))[0] == 404
        assert (await caller.code("GET", "/apis/apps/v1/namespaces/x/unknowns/y"))[0] == 404


async def test_a_name_can_be_taken_once(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p")
        assert await caller.code("POST", caller.pods, a_pod("p", site.namespace)) == (409, "AlreadyExists")


async def test_a_token_that_is_not_known_is_refused(open_site: OpenSite) -> None:
    async with open_site() as site, site.unknown_token() as connection:
        with pytest.raises(Unauthorized):
            await connection.request("GET", Caller(site).pods)
        with pytest.raises(Unauthorized):
            await connection.watch(Caller(site).pods, {"watch": "true"}, silence_s=60).__aenter__()


async def test_a_patch_that_changes_nothing_makes_no_version(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p")
        first = await caller.annotate("p", a="b")
        again = await caller.annotate("p", a="b")
        other = await caller.annotate("p", a="c")
        versions = [int(pod["metadata"]["resourceVersion"]) for pod in (first, again, other)]
        assert versions[0] == versions[1] < versions[2]


async def test_null_removes_in_a_merge_patch(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p", annotations={"a": "1", "b": "2"})
        patch = {"metadata": {"annotations": {"a": None}}}
        _, pod = await caller.call("PATCH", f"{caller.pods}/p", patch, MERGE_PATCH)
        assert pod["metadata"]["annotations"] == {"b": "2"}


async def test_a_strategic_merge_deletes_one_gate_and_leaves_the_others(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p", gates=["x.io/one", "x.io/two"])
        for gate, left in (("x.io/one", ["x.io/two"]), ("x.io/none", ["x.io/two"]), ("x.io/two", [])):
            patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]}}
            code, pod = await caller.call("PATCH", f"{caller.pods}/p", patch, STRATEGIC_PATCH)
            assert (code, [each["name"] for each in pod["spec"].get("schedulingGates", [])]) == (200, left)
        conditions = [each["type"] for each in pod["status"].get("conditions", [])]
        assert "schedulingGates" not in pod["spec"]
        assert conditions in ([], ["PodScheduled"])


async def test_a_json_patch_is_all_or_nothing(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        pod = await caller.add_pod("p", gates=["x.io/one"], annotations={"a": "1"})
        add = {"op": "add", "path": "/metadata/annotations/x.io~1b", "value": "2"}
        remove = {"op": "remove", "path": "/spec/schedulingGates/0"}
        wrong = {"op": "test", "path": "/metadata/uid", "value": "another"}
        right = {"op": "test", "path": "/metadata/uid", "value": pod["metadata"]["uid"]}
        assert await caller.code("PATCH", f"{caller.pods}/p", [wrong, add, remove], JSON_PATCH) == (422, "Invalid")
        assert (await caller.pod("p"))["metadata"]["annotations"] == {"a": "1"}
        _, patched = await caller.call("PATCH", f"{caller.pods}/p", [right, add, remove], JSON_PATCH)
        assert patched["metadata"]["annotations"] == {"a": "1", "x.io/b": "2"}
        assert "schedulingGates" not in patched["spec"]


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
@pytest.mark.parametrize("subresource", ["", "/status"])
async def test_a_patch_that_names_another_uid_is_refused(
    open_site: OpenSite, content_type: str, subresource: str
) -> None:
    async with open_site() as site:
        caller = Caller(site)
        pod = await caller.add_pod("p")
        patch: dict[str, Any] = {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}}
        patch |= {"status": {"message": "x"}} if subresource else {}
        patch["metadata"] |= {} if subresource else {"annotations": {"a": "b"}}
        path = f"{caller.pods}/p{subresource}"
        assert await caller.code("PATCH", path, patch, content_type) == (422, "Invalid")
        patch["metadata"]["uid"] = pod["metadata"]["uid"]
        assert await caller.code("PATCH", path, patch, content_type) == (200, "")


async def test_a_patch_of_an_older_version_is_a_conflict(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        pod = await caller.add_pod("p")
        await caller.annotate("p", a="b")
        patch = {"metadata": {"resourceVersion": pod["metadata"]["resourceVersion"], "labels": {"a": "b"}}}
        assert await caller.code("PATCH", f"{caller.pods}/p", patch, MERGE_PATCH) == (409, "Conflict")


async def test_of_a_spec_only_gates_may_go(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p", gates=["x.io/one"])
        for spec in (
            {"schedulerName": "another"},
            {"schedulingGates": [{"name": "x.io/one"}, {"name": "x.io/new"}]},
            {"nodeName": NODE},
        ):
            code = await caller.code("PATCH", f"{caller.pods}/p", {"spec": spec}, MERGE_PATCH)
            assert code == (422, "Invalid"), spec


async def test_status_is_changed_through_its_subresource_alone(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p")
        patch = {"status": {"message": "hello"}}
        _, pod = await caller.call("PATCH", f"{caller.pods}/p", patch, MERGE_PATCH)
        assert "message" not in pod["status"]
        _, pod = await caller.call("PATCH", f"{caller.pods}/p/status", patch, MERGE_PATCH)
        assert pod["status"]["message"] == "hello"


async def test_conditions_are_merged_by_their_type(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p")
        for reason in ("First", "Second"):
            condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
            patch = {"status": {"conditions": [condition]}}
            assert await caller.code("PATCH", f"{caller.pods}/p/status", patch, STRATEGIC_PATCH) == (200, "")
        other = {"status": {"conditions": [{"type": "x.io/Other", "status": "False"}]}}
        _, pod = await caller.call("PATCH", f"{caller.pods}/p/status", other, STRATEGIC_PATCH)
        found = {each["type"]: each.get("reason") for each in pod["status"]["conditions"]}
        assert found == {"DisruptionTarget": "Second", "x.io/Other": None}


async def test_a_replacement_must_be_of_the_version_that_is_there(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        path = f"/apis/coordination.k8s.io/v1/namespaces/{site.namespace}/leases"
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15},
        }
        _, made = await caller.call("POST", path, lease)
        made["spec"]["holderIdentity"] = "b"
        _, renewed = await caller.call("PUT", f"{path}/l", made)
        assert renewed["spec"]["holderIdentity"] == "b"
        assert await caller.code("PUT", f"{path}/l", made) == (409, "Conflict")


async def test_kinds_are_discovered(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        _, apps = await caller.call("GET", "/apis/apps/v1")
        kinds = {(each["kind"], each["name"], each["namespaced"]) for each in apps["resources"]}
        assert ("ReplicaSet", "replicasets", True) in kinds
        _, core = await caller.call("GET", "/api/v1")
        kinds = {(each["kind"], each["name"], each["namespaced"]) for each in core["resources"]}
        assert ("Node", "nodes", False) in kinds


async def test_metadata_alone_can_be_read(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p", annotations={"a": "b"})
        answer = await site.connection.request("GET", f"{caller.pods}/p", accept=METADATA_ONLY)
        assert answer.headers["content-type"] == JSON
        body = json.loads(answer.body)
        assert (body["kind"], body["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
        assert body["metadata"]["annotations"] == {"a": "b"}
        assert body.keys() == {"kind", "apiVersion", "metadata"}


async def test_an_event_is_made_once_and_counted_up(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        path = f"/apis/events.k8s.io/v1/namespaces/{site.namespace}/events"
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": "e", "namespace": site.namespace},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "x.io/y",
            "reportingInstance": "i",
            "action": "Scheduling",
            "reason": "Testing",
            "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": site.namespace, "uid": "u"},
            "note": "x" * 1024,
            "type": "Normal",
        }
        assert await caller.code("POST", path, event) == (201, "")
        assert await caller.code("POST", path, event) == (409, "AlreadyExists")
        series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:30.000000Z"}}
        _, counted = await caller.call("PATCH", f"{path}/e", series, MERGE_PATCH)
        assert counted["series"]["count"] == 2
        event |= {"metadata": {"name": "f", "namespace": site.namespace}, "note": "x" * 1025}
        assert await caller.code("POST", path, event) == (422, "Invalid")
