"""Binding, waking and ending Pods, whatever happens to the requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from looptime import LoopTimeProxy

from extender.domain import wellknown
from extender.domain.events import MemberRef
from extender.domain.ports import BindResult
from extender.kube.wire.pod import read_pod
from extender.kube.writes import PodWriter
from simulator.kube.faults import KubeFault
from simulator.kube.objects import Json
from simulator.kube.pods import pod_key
from tests.builders.fake_api import FakeApi, a_rng, fake_api

ALLOCATION_RECORD = {"status.slurm-extender.io/job-id": "42", "status.slurm-extender.io/node": "n1"}

pytestmark = pytest.mark.looptime


@dataclass
class Bench:
    """A writer and one Pod."""

    api: FakeApi
    writer: PodWriter
    member: MemberRef

    @property
    def pod(self) -> Json:
        pod = self.api.server.pod(self.member.name)
        assert pod is not None
        return pod

    @property
    def exists(self) -> bool:
        return self.api.server.pod(self.member.name) is not None

    def run(self, node: str = "n1") -> None:
        """Have the Pod bound and running."""

        def start(pod: Json) -> None:
            pod["spec"]["nodeName"] = node
            pod["status"] |= {"phase": "Running"}

        self.api.server.change(pod_key("default", self.member.name), start)

    def replace(self) -> None:
        """Delete the Pod and make another under its name."""
        self.api.server.delete_pod(self.member.name, grace_s=0)
        self.api.server.add_pod(self.member.name)

    def condition(self, kind: str) -> Json | None:
        conditions = self.pod["status"].get("conditions") or ()
        return next((each for each in conditions if each["type"] == kind), None)

    def count(self, method: str, ending: str) -> int:
        requests = self.api.server.requests
        return sum(request.method == method and request.path.endswith(ending) for request in requests)


@asynccontextmanager
async def a_bench(max_grace_s: int | None = None, **fields: Any) -> AsyncIterator[Bench]:
    async with fake_api() as api:
        pod = api.server.add_pod("p", **fields)
        writer = PodWriter(api.connection, clock=api.clock, rng=a_rng(), max_grace_s=max_grace_s)
        yield Bench(api, writer, MemberRef(pod["metadata"]["uid"], "default", "p"))


# Binding


async def test_a_binding_sets_the_node_and_the_annotations_together() -> None:
    async with a_bench() as bench:
        answer = await bench.writer.bind(bench.member, "n1", {"k": "v"})
        assert answer.result is BindResult.BOUND
        assert bench.pod["spec"]["nodeName"] == "n1"
        assert bench.pod["metadata"]["annotations"] == {"k": "v"}


async def test_a_repeated_binding_is_bound() -> None:
    async with a_bench() as bench:
        await bench.writer.bind(bench.member, "n1", {})
        assert (await bench.writer.bind(bench.member, "n1", {})).result is BindResult.BOUND


async def test_a_pod_bound_to_another_node_is_refused_with_that_node() -> None:
    async with a_bench() as bench:
        await bench.writer.bind(bench.member, "n1", {})
        answer = await bench.writer.bind(bench.member, "n2", {})
        assert answer.result is BindResult.REFUSED
        assert 'already assigned to node "n1"' in answer.text


async def test_a_gated_pod_is_refused() -> None:
    async with a_bench(gates=["other"]) as bench:
        answer = await bench.writer.bind(bench.member, "n1", {})
        assert answer.result is BindResult.REFUSED
        assert "schedulingGates" in answer.text


async def test_an_ending_pod_is_refused() -> None:
    async with a_bench() as bench:

        def hold(pod: Json) -> None:
            pod["metadata"]["finalizers"] = ["x/y"]

        bench.api.server.change(pod_key("default", "p"), hold)
        bench.api.server.delete_pod("p")
        answer = await bench.writer.bind(bench.member, "n1", {})
        assert (answer.result, "being deleted" in answer.text) == (BindResult.REFUSED, True)


async def test_a_pod_that_is_gone_or_replaced_is_refused_and_untouched() -> None:
    async with a_bench() as bench:
        bench.replace()
        assert (await bench.writer.bind(bench.member, "n1", {})).result is BindResult.REFUSED
        assert "nodeName" not in bench.pod["spec"]
        bench.api.server.delete_pod("p")
        assert (await bench.writer.bind(bench.member, "n1", {})).result is BindResult.REFUSED


async def test_a_binding_whose_answer_was_lost_is_found_bound() -> None:
    async with a_bench() as bench:
        bench.api.cut_after(0)
        assert (await bench.writer.bind(bench.member, "n1", {})).result is BindResult.BOUND
        assert bench.count("POST", "/binding") == 2


async def test_a_binding_that_hangs_is_unknown_before_kube_scheduler_gives_up(looptime: LoopTimeProxy) -> None:
    async with a_bench() as bench:
        bench.api.server.faults.add(KubeFault(code=0, times=None))
        answer = await bench.writer.bind(bench.member, "n1", {})
        assert answer.result is BindResult.UNKNOWN
        assert "no answer" in answer.text
        assert looptime <= 4.5


async def test_an_api_server_that_cannot_be_reached_is_unknown() -> None:
    async with a_bench() as bench:
        bench.api.refuse()
        assert (await bench.writer.bind(bench.member, "n1", {})).result is BindResult.UNKNOWN


async def test_a_lost_binding_that_may_still_be_executed_is_unknown() -> None:
    async with a_bench() as bench:
        bench.api.server.faults.add(KubeFault(method="POST", code=504, times=None))
        assert (await bench.writer.bind(bench.member, "n1", {})).result is BindResult.UNKNOWN


async def test_a_binding_that_is_not_allowed_is_refused() -> None:
    async with a_bench() as bench:
        bench.api.server.allowed = lambda permission: permission.resource != "pods/binding"
        answer = await bench.writer.bind(bench.member, "n1", {})
        assert (answer.result, "pods/binding" in answer.text) == (BindResult.REFUSED, True)


# Waking


async def test_waking_a_gated_pod_ungates_and_annotates_it_in_one_change() -> None:
    async with a_bench(gates=["first", wellknown.GATE, "last"]) as bench:
        before = bench.api.server.storage.version
        assert (await bench.writer.wake(bench.member, ALLOCATION_RECORD)).accepted
        assert bench.api.server.storage.version == before + 1
        assert bench.pod["spec"]["schedulingGates"] == [{"name": "first"}, {"name": "last"}]
        assert bench.pod["metadata"]["annotations"] == ALLOCATION_RECORD


async def test_the_last_gate_leaves_no_list_behind() -> None:
    async with a_bench(gates=[wellknown.GATE]) as bench:
        assert (await bench.writer.wake(bench.member, ALLOCATION_RECORD)).accepted
        assert "schedulingGates" not in bench.pod["spec"]


async def test_waking_an_ungated_pod_annotates_it_and_keeps_what_is_there() -> None:
    async with a_bench(annotations={"mine": "stays"}) as bench:
        assert (await bench.writer.wake(bench.member, ALLOCATION_RECORD)).accepted
        annotations = {"mine": "stays", **ALLOCATION_RECORD}
        assert bench.pod["metadata"]["annotations"] == annotations


async def test_annotating_writes_nothing_else_and_to_no_other_pod_of_the_name() -> None:
    async with a_bench(annotations={"mine": "stays"}, gates=[wellknown.GATE]) as bench:
        assert await bench.writer.annotate(bench.member, {wellknown.CANCELLED: "{}"})
        assert bench.pod["metadata"]["annotations"] == {"mine": "stays", wellknown.CANCELLED: "{}"}
        assert bench.pod["spec"]["schedulingGates"] == [{"name": wellknown.GATE}]
        before = bench.api.server.storage.version
        assert not await bench.writer.annotate(replace(bench.member, uid="another"), {wellknown.CANCELLED: "other"})
        assert bench.api.server.storage.version == before


async def test_waking_again_changes_nothing() -> None:
    async with a_bench(gates=[wellknown.GATE]) as bench:
        await bench.writer.wake(bench.member, ALLOCATION_RECORD)
        before = bench.api.server.storage.version
        assert (await bench.writer.wake(bench.member, ALLOCATION_RECORD)).accepted
        assert bench.api.server.storage.version == before


async def test_waking_does_not_touch_another_pod_of_the_same_name() -> None:
    async with a_bench() as bench:
        bench.replace()
        assert not (await bench.writer.wake(bench.member, ALLOCATION_RECORD)).accepted
        assert "annotations" not in bench.pod["metadata"]


async def test_waking_outlasts_a_short_outage() -> None:
    async with a_bench() as bench:
        bench.api.server.faults.add(KubeFault(method="PATCH", code=503, times=3))
        assert (await bench.writer.wake(bench.member, ALLOCATION_RECORD)).accepted


async def test_a_repetition_does_not_write_the_record_of_a_job_that_was_released_meanwhile() -> None:
    async with a_bench() as bench:
        bench.api.server.faults.add(KubeFault(method="PATCH", code=503, times=3))
        answers = iter([True, True, False])
        woken = await bench.writer.wake(bench.member, ALLOCATION_RECORD, wanted=lambda: next(answers))
        assert not woken.accepted
        assert "no longer wanted" in woken.text
        assert "annotations" not in bench.pod["metadata"]


async def test_waking_gives_up_in_time(looptime: LoopTimeProxy) -> None:
    async with a_bench() as bench:
        bench.api.refuse()
        assert not (await bench.writer.wake(bench.member, ALLOCATION_RECORD)).accepted
        assert looptime <= 15


async def test_ungating_leaves_everything_else() -> None:
    async with a_bench(gates=[wellknown.GATE, "other"]) as bench:
        assert await bench.writer.ungate(bench.member)
        assert bench.pod["spec"]["schedulingGates"] == [{"name": "other"}]
        assert "annotations" not in bench.pod["metadata"]


# Ending


async def test_an_involuntary_end_names_its_cause_and_then_deletes() -> None:
    async with a_bench() as bench:
        bench.run()
        answer = await bench.writer.end(bench.member, "SlurmJobPreempted", "job 42 was preempted", voluntary=False)
        assert answer.accepted
        assert "deletionTimestamp" in bench.pod["metadata"]
        condition = bench.condition("DisruptionTarget")
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("True", "SlurmJobPreempted")
        assert condition["message"] == "job 42 was preempted"


async def test_a_voluntary_end_evicts_and_names_its_cause() -> None:
    async with a_bench() as bench:
        bench.run()
        answer = await bench.writer.end(bench.member, "SlurmJobCancelled", "job 42 was cancelled", voluntary=True)
        assert answer.accepted
        assert bench.count("POST", "/eviction") == 1
        assert "deletionTimestamp" in bench.pod["metadata"]
        condition = bench.condition("DisruptionTarget")
        assert condition is not None
        assert condition["reason"] == "SlurmJobCancelled"


async def test_a_disruption_budget_refuses_a_voluntary_end_at_once(looptime: LoopTimeProxy) -> None:
    async with a_bench(labels={"app": "x"}) as bench:
        bench.run()
        bench.api.server.create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "b", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "x"}}},
                "status": {"disruptionsAllowed": 0},
            }
        )
        answer = await bench.writer.end(bench.member, "R", "text", voluntary=True)
        assert not answer.accepted
        assert "disruption budget" in answer.text
        assert "deletionTimestamp" not in bench.pod["metadata"]
        assert bench.condition("DisruptionTarget") is None
        assert looptime == 0
        assert (await bench.writer.end(bench.member, "R", "text", voluntary=False)).accepted


@pytest.mark.parametrize("voluntary", [True, False])
async def test_a_pod_that_is_gone_needs_no_end(voluntary: bool) -> None:
    async with a_bench() as bench:
        bench.api.server.delete_pod("p")
        assert (await bench.writer.end(bench.member, "R", "text", voluntary)).accepted


@pytest.mark.parametrize("voluntary", [True, False])
async def test_another_pod_of_the_same_name_is_left_alone(voluntary: bool) -> None:
    async with a_bench() as bench:
        bench.replace()
        assert (await bench.writer.end(bench.member, "R", "text", voluntary)).accepted
        assert "deletionTimestamp" not in bench.pod["metadata"]
        assert bench.condition("DisruptionTarget") is None


@pytest.mark.parametrize("voluntary", [True, False])
async def test_an_end_whose_answer_was_lost_is_requested_again(voluntary: bool) -> None:
    async with a_bench() as bench:
        bench.run()
        method, path = ("POST", "/eviction") if voluntary else ("DELETE", "")
        bench.api.server.faults.add(KubeFault(method=method, path=path, code=500, after=True))
        assert (await bench.writer.end(bench.member, "R", "text", voluntary)).accepted
        assert "deletionTimestamp" in bench.pod["metadata"]


@pytest.mark.parametrize("voluntary", [True, False])
async def test_an_end_that_cannot_be_requested_is_not_accepted(voluntary: bool) -> None:
    async with a_bench() as bench:
        bench.run()
        bench.api.refuse()
        answer = await bench.writer.end(bench.member, "R", "text", voluntary)
        assert not answer.accepted
        assert answer.uid == bench.member.uid


async def test_a_condition_that_cannot_be_written_keeps_no_pod_alive() -> None:
    async with a_bench() as bench:
        bench.run()
        bench.api.server.allowed = lambda permission: permission.resource != "pods/status"
        assert (await bench.writer.end(bench.member, "R", "text", voluntary=False)).accepted
        assert "deletionTimestamp" in bench.pod["metadata"]


async def test_a_pod_that_the_watch_shows_is_ended_without_being_read_and_is_read_when_that_is_repeated() -> None:
    async with a_bench(max_grace_s=60, grace_s=3600) as bench:
        bench.run()
        seen = read_pod(json.dumps(bench.pod).encode())
        assert (await bench.writer.end(bench.member, "R", "text", voluntary=True, seen=seen)).accepted
        assert bench.count("GET", "/pods/p") == 0
        assert bench.pod["metadata"]["deletionGracePeriodSeconds"] == 60
        version = bench.api.server.storage.version
        assert (await bench.writer.end(bench.member, "R", "text", voluntary=True, seen=seen)).accepted
        assert bench.count("GET", "/pods/p") == 1
        assert bench.api.server.storage.version == version


async def test_a_pod_that_the_watch_shows_ending_is_read() -> None:
    async with a_bench(grace_s=300) as bench:
        bench.run()
        bench.api.server.delete_pod("p")
        seen = read_pod(json.dumps(bench.pod).encode())
        deadline = bench.api.clock.now() + 20
        assert (await bench.writer.end(bench.member, "R", "text", True, deadline, seen=seen)).shortened
        assert bench.count("GET", "/pods/p") == 1


@pytest.mark.parametrize("voluntary", [True, False])
async def test_a_pod_that_was_replaced_since_the_watch_showed_it_is_left_alone(voluntary: bool) -> None:
    async with a_bench() as bench:
        bench.run()
        seen = read_pod(json.dumps(bench.pod).encode())
        bench.replace()
        assert (await bench.writer.end(bench.member, "R", "text", voluntary, seen=seen)).accepted
        assert "deletionTimestamp" not in bench.pod["metadata"]
        assert bench.condition("DisruptionTarget") is None


async def test_a_grace_longer_than_the_site_allows_is_shortened() -> None:
    async with a_bench(max_grace_s=60, grace_s=3600) as bench:
        bench.run()
        await bench.writer.end(bench.member, "R", "text", voluntary=False)
        assert bench.pod["metadata"]["deletionGracePeriodSeconds"] == 60


async def test_a_grace_within_the_limit_is_the_pods_own() -> None:
    async with a_bench(max_grace_s=60, grace_s=10) as bench:
        bench.run()
        await bench.writer.end(bench.member, "R", "text", voluntary=True)
        assert bench.pod["metadata"]["deletionGracePeriodSeconds"] == 10


async def test_a_grace_beyond_slurms_deadline_is_cut_and_the_pod_says_why() -> None:
    async with a_bench(max_grace_s=600, grace_s=60) as bench:
        bench.run()
        answer = await bench.writer.end(bench.member, "R", "text", False, bench.api.clock.now() + 20)
        assert 18 <= bench.pod["metadata"]["deletionGracePeriodSeconds"] <= 20
        assert "Its grace period is shortened from 60 s to " in answer.shortened
        condition = bench.condition("DisruptionTarget")
        assert condition is not None
        assert condition["message"] == f"text {answer.shortened}"


async def test_an_end_that_is_under_way_is_shortened_once_and_otherwise_left_alone() -> None:
    async with a_bench(max_grace_s=600, grace_s=300) as bench:
        bench.run()
        bench.api.server.delete_pod("p")
        deadline = bench.api.clock.now() + 20
        assert (await bench.writer.end(bench.member, "R", "text", True, deadline)).shortened
        assert 18 <= bench.pod["metadata"]["deletionGracePeriodSeconds"] <= 21
        version = bench.api.server.storage.version
        for voluntary in (True, False):
            assert (await bench.writer.end(bench.member, "R", "text", voluntary, deadline)).accepted
        assert bench.api.server.storage.version == version


async def test_a_pod_without_a_grace_is_still_ended_by_its_kubelet() -> None:
    async with a_bench(grace_s=0) as bench:
        bench.run()
        await bench.writer.end(bench.member, "R", "text", voluntary=False)
        assert bench.pod["metadata"]["deletionGracePeriodSeconds"] == 1


async def test_a_pod_that_cannot_be_read_is_ended_with_its_own_grace() -> None:
    async with a_bench(max_grace_s=5, grace_s=40) as bench:
        bench.run()
        bench.api.server.faults.add(KubeFault(method="GET", path="/pods/p$", code=503, times=None))
        assert (await bench.writer.end(bench.member, "R", "text", voluntary=False)).accepted
        assert bench.pod["metadata"]["deletionGracePeriodSeconds"] == 40


async def test_a_budget_is_distinguished_from_other_refusals() -> None:
    async with a_bench() as bench:
        bench.run()
        bench.api.server.faults.add(KubeFault(method="POST", path="/eviction", code=429))
        held = await bench.writer.end(bench.member, "R", "text", voluntary=True)
        assert (held.accepted, held.budget) == (False, True)
        bench.api.server.faults.add(KubeFault(method="DELETE", code=429, times=None))
        assert not (await bench.writer.end(bench.member, "R", "text", voluntary=False)).budget
