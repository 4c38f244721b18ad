"""`/filter`: every answer has the form that kube-scheduler reads, and no name leaves that did not come."""

from __future__ import annotations

from typing import Any

import pytest

from extender.domain.verdict import NOT_OFFERED_TEXT, UNREADY_TEXT, Pass, Place, Unready, Wait
from extender.http.app import application
from extender.http.scheduling import router
from extender.observability.metrics.registry import Metrics
from tests.builders.services import WAITING, FakeScheduling, FakeServices, StillClock, args, client, pod_json


async def call(service: FakeScheduling, body: Any, metrics: Metrics | None = None) -> dict[str, Any]:
    clock = StillClock()
    app = application([router(FakeServices(service), metrics or Metrics(clock), clock, 1 << 20)])
    async with client(app) as http:
        reply = await http.post("/scheduler/filter", json=body)
    assert reply.status_code == 200
    assert int(reply.headers["content-length"]) == len(reply.content)
    assert "transfer-encoding" not in reply.headers
    answer: dict[str, Any] = reply.json()
    return answer


async def test_a_granted_pod_gets_its_node_and_no_other() -> None:
    answer = await call(FakeScheduling(Place("n2")), args("n1", "n2", "n3"))
    assert answer == {
        "Nodes": None,
        "NodeNames": ["n2"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


async def test_a_waiting_pod_is_rejected_with_one_entry_that_has_the_text() -> None:
    answer = await call(FakeScheduling(Wait(WAITING)), args("n1", "n2", "n3"))
    assert answer["NodeNames"] == []
    assert answer["FailedAndUnresolvableNodes"] == {"n1": WAITING}
    assert answer["FailedNodes"] == {}
    assert answer["Error"] == ""


async def test_the_answer_to_the_same_question_never_changes() -> None:
    service = FakeScheduling(Wait(WAITING))
    assert await call(service, args("n1", "n2")) == await call(service, args("n1", "n2"))


async def test_a_pod_of_another_scheduler_keeps_every_node_in_order() -> None:
    answer = await call(FakeScheduling(Pass(["n3", "n1"])), args("n3", "n1"))
    assert answer["NodeNames"] == ["n3", "n1"]
    assert answer["Error"] == ""


async def test_an_unready_extender_answers_an_error_so_that_the_pod_comes_back_on_a_timer() -> None:
    answer = await call(FakeScheduling(Unready(UNREADY_TEXT)), args("n1"))
    assert answer["Error"] == UNREADY_TEXT
    assert answer["NodeNames"] is None


@pytest.mark.parametrize("verdict", [Place("n9"), Pass(["n9", "n1"])])
async def test_a_name_that_was_not_offered_never_leaves(verdict: Place | Pass) -> None:
    answer = await call(FakeScheduling(verdict), args("n1"))
    assert set(answer["NodeNames"]) <= {"n1"}
    if isinstance(verdict, Place):
        assert answer["FailedAndUnresolvableNodes"] == {"n1": NOT_OFFERED_TEXT}


async def test_the_service_sees_the_pod_and_every_name() -> None:
    service = FakeScheduling()
    await call(service, args("n1", "n2"))
    [(pod, names, full)] = service.offers
    assert (pod.uid, pod.full_name, pod.scheduler_name) == ("u1", "ns/p", "slurm")
    assert names == ("n1", "n2")
    assert full


@pytest.mark.parametrize(
    ("nominated", "names", "full"),
    [("n1", ["n1"], False), ("n1", ["n1", "n2"], True), ("", ["n1"], True), ("n2", ["n1"], True)],
)
async def test_the_try_out_of_a_nominated_node_is_no_full_list(nominated: str, names: list[str], full: bool) -> None:
    service = FakeScheduling()
    body = args(*names)
    body["Pod"]["status"]["nominatedNodeName"] = nominated
    await call(service, body)
    assert service.offers[0][2] is full


async def test_whole_nodes_are_answered_with_whole_nodes() -> None:
    nodes = [{"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4"}}} for name in ("n1", "n2")]
    body = {"Pod": pod_json(), "Nodes": {"items": nodes}, "NodeNames": None}
    answer = await call(FakeScheduling(Place("n2")), body)
    assert answer["Nodes"] == {"items": [nodes[1]]}
    assert answer["NodeNames"] is None
    rejected = await call(FakeScheduling(Wait(WAITING)), body)
    assert rejected["Nodes"] == {"items": []}
    assert rejected["FailedAndUnresolvableNodes"] == {"n1": WAITING}


async def test_no_nodes_at_all_are_answered_with_none() -> None:
    for body in (args(), {"Pod": pod_json(), "Nodes": None, "NodeNames": None}):
        answer = await call(FakeScheduling(Wait(WAITING)), body)
        assert answer["NodeNames"] == []
        assert answer["Error"] == ""


async def test_fields_of_newer_releases_are_ignored() -> None:
    body = args("n1", Placement={"x": 1})
    body["Pod"]["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    assert (await call(FakeScheduling(Place("n1")), body))["NodeNames"] == ["n1"]


async def test_a_failure_inside_is_an_error_without_internals() -> None:
    answer = await call(FakeScheduling(failure=RuntimeError("password=hush")), args("n1"))
    assert answer["Error"] == "internal error of the extender; see its log"


async def test_answers_are_counted_by_verdict() -> None:
    metrics = Metrics(StillClock())
    await call(FakeScheduling(Place("n1")), args("n1"), metrics)
    text = metrics.render().decode()
    assert 'slurm_extender_filter_duration_seconds_count{result="place"} 1.0' in text


async def test_five_thousand_names_fit_in_a_request() -> None:
    names = [f"node-{number:05}.cluster.example" for number in range(5000)]
    answer = await call(FakeScheduling(Place(names[4321])), args(*names))
    assert answer["NodeNames"] == [names[4321]]


async def test_a_time_of_long_ago_without_a_zone_is_answered() -> None:
    body = args("n1")
    body["Pod"]["metadata"]["creationTimestamp"] = "0001-01-01T00:00:00"
    service = FakeScheduling(Wait("waits"))
    assert (await call(service, body))["Error"] == ""
