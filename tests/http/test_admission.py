"""`/admission/mutate`: Pods of ours get the gate, everything else passes as it came."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from extender.domain.views import Taint
from extender.domain.wellknown import GATE, MANAGED_TAINT, NATIVE_JOB_TAINT
from extender.http.admission import router
from extender.http.app import application
from extender.runtime.log_throttle import LOG_INTERVAL_S
from simulator.kube.objects import a_pod
from tests.builders.hostile_server import memory_at_most
from tests.builders.services import StillClock, client

GATED = [{"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]}]
JOINED = [{"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": GATE}}]


JSON = {"Content-Type": "application/json"}
TAINTS = (Taint(MANAGED_TAINT, "NoSchedule", "slurm"), Taint(NATIVE_JOB_TAINT, "NoExecute", "slurm"))


async def post(
    body: Any,
    namespaces: tuple[str, ...] | None = None,
    max_body: int = 1 << 20,
    tolerated: tuple[Taint, ...] = (),
    route: str = "mutate",
) -> httpx.Response:
    async with client(
        application([router(["slurm"], namespaces, max_body, StillClock(), tolerated=tolerated)])
    ) as http:
        return await http.post(f"/admission/{route}?timeout=10s", content=json.dumps(body).encode(), headers=JSON)


async def patch(
    pod: Any,
    operation: str = "CREATE",
    namespaces: tuple[str, ...] | None = None,
    tolerated: tuple[Taint, ...] = (),
    route: str = "mutate",
) -> Any:
    request = {"uid": "u-1", "operation": operation, "namespace": "default", "object": pod, "oldObject": None}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    reply = await post(review, namespaces, tolerated=tolerated, route=route)
    assert reply.status_code == 200
    answer = reply.json()
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = answer["response"]
    assert (response["uid"], response["allowed"]) == ("u-1", True)
    if "patch" not in response:
        return []
    assert response["patchType"] == "JSONPatch"
    return json.loads(base64.b64decode(response["patch"]))


def with_spec(**spec: Any) -> Any:
    pod = a_pod("web")
    pod["spec"].update(spec)
    return pod


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod("web"), GATED),
        (a_pod("web", gates=("kueue.x-k8s.io/admission",)), JOINED),
        (with_spec(schedulingGates=[]), JOINED),
        (with_spec(schedulingGates=None), GATED),
        (a_pod("web", gates=(GATE,)), []),
        (a_pod("web", scheduler="default-scheduler"), []),
        (a_pod("web", node="n1"), []),
        (with_spec(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]), []),
        (with_spec(tolerations="none"), []),
        (None, []),
    ],
    ids=["ours", "another's gate", "no gates yet", "null", "gated", "another's", "bound", "uncovered", "odd", "no Pod"],
)
async def test_a_new_pod_of_the_scheduler_gets_the_gate_and_no_other_pod_is_changed(pod: Any, expected: Any) -> None:
    assert await patch(pod) == expected


async def test_a_pod_made_from_a_template_without_a_namespace_of_its_own_is_in_that_of_the_request() -> None:
    pod = a_pod("web")
    del pod["metadata"]["namespace"]
    assert await patch(pod, namespaces=("default",)) == GATED
    assert await patch(pod, namespaces=("elsewhere",)) == []


async def test_updates_are_left_alone() -> None:
    assert await patch(a_pod("web"), operation="UPDATE") == []


@pytest.mark.parametrize(
    "body", [None, [], {}, {"request": None}, {"request": {}}, {"request": {"uid": 5, "object": 3}}]
)
async def test_what_is_no_review_is_refused_with_a_word(body: Any) -> None:
    reply = await post(body)
    assert reply.status_code == 400
    assert "malformed request" in reply.json()["error"]


async def test_pods_that_cannot_be_read_are_a_line_a_minute_and_a_number() -> None:
    clock = StillClock()
    review = {"request": {"uid": "u", "operation": "CREATE", "namespace": "n", "object": {"spec": 7}}}
    with capture_logs() as logs:
        async with client(application([router(["slurm"], None, 1 << 20, clock)])) as http:
            for _ in range(30):
                assert (await http.post("/admission/mutate", json=review)).json()["response"]["allowed"]
            clock.time += LOG_INTERVAL_S
            await http.post("/admission/opt-in", json=review)
    assert [(line["event"], line["times"]) for line in logs] == [
        ("pod_admission_skipped", 1),
        ("pod_admission_skipped", 30),
    ]


@pytest.mark.parametrize("uid", ['"\\ud800"', "NaN", "-Infinity", '"' + "x" * 100_000 + '"'])
@pytest.mark.parametrize("route", ["mutate", "opt-in"])
async def test_a_uid_that_json_cannot_give_back_is_refused_or_given_back(uid: str, route: str) -> None:
    body = '{"request": {"operation": "CREATE", "object": {"metadata": {}, "spec": {}}, "uid": ' + uid + "}}"
    async with client(application([router(["slurm"], None, 1 << 20, StillClock())])) as http:
        reply = await http.post(f"/admission/{route}", content=body.encode(), headers=JSON)
    assert reply.status_code == 400 or reply.json()["response"]["uid"] == json.loads(uid)


async def test_a_body_that_is_too_large_is_not_read() -> None:
    reply = await post({"request": {"uid": "u", "object": {"x": "y" * 5000}}}, max_body=1000)
    assert reply.status_code == 413
    assert reply.json() == {"error": "the body has more than 1000 bytes"}


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_review_of_another_content_type_is_not_read(content_type: str) -> None:
    """Browsers send these types to any address without asking first."""
    async with client(application([router(["slurm"], None, 1 << 20, StillClock())])) as http:
        reply = await http.post("/admission/mutate", content=b"{}", headers={"Content-Type": content_type})
    assert reply.status_code == 415
    assert "not application/json" in reply.json()["error"]


def large(pod: Any, size: int) -> bytes:
    """A review of this Pod, of so many bytes; a text of its first container is as long as that takes."""
    review = {"request": {"uid": "u-1", "operation": "CREATE", "namespace": "default", "object": pod}}
    pod["spec"]["containers"][0]["command"] = [""]
    pod["spec"]["containers"][0]["command"][0] = "x" * (size - len(json.dumps(review)))
    return json.dumps(review).encode()


def with_annotations(count: int) -> Any:
    return a_pod("web", annotations={f"a{number}": "" for number in range(count)})


def with_tolerations(count: int) -> Any:
    return with_spec(tolerations=[{"key": f"a{number}"} for number in range(count)])


MOST = 4 * 1024 * 1024
"""`http.maxRequestBytes`; the API server takes objects of up to 3 MiB."""

LARGE: dict[str, tuple[Callable[[str], Any], int]] = {
    "one long text": (a_pod, 32),
    "150,000 annotations": (lambda _: with_annotations(150_000), 64),
    "150,000 tolerations": (lambda _: with_tolerations(150_000), 128),
}
"""Pods, and the MiB that an answer about one takes at most, of which the text itself is 4."""


@pytest.mark.parametrize("route", ["mutate", "opt-in"])
@pytest.mark.parametrize("name", LARGE)
async def test_a_pod_as_large_as_a_request_may_be_is_answered_in_bounded_memory(name: str, route: str) -> None:
    make, mebibytes = LARGE[name]
    body = large(make("web"), MOST)
    assert len(body) == MOST
    clock = StillClock()
    app = application([router(["slurm"], None, MOST, clock, tolerated=TAINTS)])
    async with client(app) as http:
        with memory_at_most(mebibytes * 2**20):
            reply = await http.post(f"/admission/{route}", content=body, headers=JSON)
        assert reply.json()["response"]["allowed"]
        assert (await http.post(f"/admission/{route}", content=body + b" ", headers=JSON)).status_code == 413


BOTH = [{"key": MANAGED_TAINT, "operator": "Exists"}, {"key": NATIVE_JOB_TAINT, "operator": "Exists"}]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod("web", gates=(GATE,)), [{"op": "add", "path": "/spec/tolerations", "value": BOTH}]),
        (
            with_spec(schedulingGates=[{"name": GATE}], tolerations=[{"key": MANAGED_TAINT, "operator": "Exists"}]),
            [{"op": "add", "path": "/spec/tolerations/-", "value": BOTH[1]}],
        ),
        (with_spec(schedulingGates=[{"name": GATE}], tolerations=[{"operator": "Exists"}]), []),
        (a_pod("web", scheduler="default-scheduler"), []),
    ],
    ids=["none", "one", "all", "another's"],
)
async def test_a_pod_of_the_scheduler_tolerates_what_keeps_others_off_the_nodes_of_slurm(
    pod: Any, expected: Any
) -> None:
    assert await patch(pod, tolerated=TAINTS) == expected
    assert await patch(pod, tolerated=TAINTS, namespaces=("elsewhere",)) == []


async def test_gate_and_tolerations_come_in_one_patch() -> None:
    found = await patch(a_pod("web"), tolerated=TAINTS[:1])
    assert found == [*GATED, {"op": "add", "path": "/spec/tolerations", "value": BOTH[:1]}]


NAMED = {"op": "add", "path": "/spec/schedulerName", "value": "slurm"}
UNDECIDED = a_pod("web", scheduler="default-scheduler")


def undecided(**changed: Any) -> Any:
    pod = a_pod("web", scheduler="default-scheduler", annotations=changed.pop("annotations", {}))
    pod["metadata"].update(changed.pop("metadata", {}))
    pod["spec"].update(changed)
    return pod


async def test_a_pod_of_a_namespace_on_slurm_gets_scheduler_gate_and_tolerations() -> None:
    found = await patch(UNDECIDED, tolerated=TAINTS[:1], route="opt-in")
    assert found == [NAMED, *GATED, {"op": "add", "path": "/spec/tolerations", "value": BOTH[:1]}]
    assert await patch(undecided(schedulerName=""), route="opt-in") == [NAMED, *GATED]
    assert await patch(UNDECIDED, route="opt-in", namespaces=("elsewhere",)) == []


DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d-1", "controller": True}


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("web", scheduler="volcano"),
        undecided(nodeName="n1"),
        undecided(hostNetwork=True),
        undecided(metadata={"ownerReferences": [DAEMON]}),
        undecided(annotations={"slurm-extender.io/opt-out": "true"}),
    ],
    ids=["another scheduler", "bound", "network of the Node", "DaemonSet", "opted out"],
)
async def test_a_pod_that_belongs_to_the_cluster_or_to_another_scheduler_stays_there(pod: Any) -> None:
    assert await patch(pod, route="opt-in", tolerated=TAINTS) == []


async def test_a_pod_that_names_the_scheduler_is_gated_whatever_it_says_of_opting_out() -> None:
    pod = a_pod("web", annotations={"slurm-extender.io/opt-out": "true"})
    assert await patch(pod, route="opt-in") == GATED
    assert await patch(pod) == GATED
