"""Starts and ends of Pods as a watcher of the API server sees them."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from simulator.kube.objects import Json
from tests.builders.kube_sites import NODE, Caller, until
from tests.builders.kubelet_beds import Behaviour, is_ready, started, state, versions
from tests.contract.kubelet.conftest import OpenBed

KILLED, TERMINATED = 137, 143
RENEWED_WITHIN_S = 15.0
"""A kubelet renews the Lease of its Node every 10 s."""


def deleted(kind: str, _: Json) -> bool:
    return kind == "DELETED"


def is_finished(_: str, pod: Json) -> bool:
    return pod["status"]["phase"] in {"Succeeded", "Failed"}


async def is_gone(caller: Caller, name: str) -> bool:
    return (await caller.code("GET", f"{caller.pods}/{name}"))[0] == 404


async def test_a_bound_pod_runs_and_is_ready(open_bed: OpenBed) -> None:
    async with open_bed() as bed:
        caller = await started(bed, "p", Behaviour())
        pod = await caller.pod("p")
        assert is_ready(pod)
        assert list(state(pod)) == ["running"]
        assert pod["status"]["containerStatuses"][0]["ready"] is True
        assert pod["status"]["podIP"]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_container_that_ends_by_itself_ends_its_pod_which_stays(open_bed: OpenBed, fails: bool) -> None:
    async with open_bed() as bed:
        caller = Caller(bed)

        async def come() -> None:
            await caller.add_pod("p", node=NODE, **bed.spec(Behaviour(run_for=2, fails=fails)))

        seen = await versions(caller, "p", come, is_finished)
        phases = [pod["status"]["phase"] for _, pod in seen]
        changes = [phases[0], *(after for before, after in pairwise(phases) if before != after)]
        assert changes == ["Pending", "Running", "Failed" if fails else "Succeeded"]
        pod = await caller.pod("p")
        ended = state(pod)["terminated"]
        assert (ended["exitCode"], ended["reason"]) == ((1, "Error") if fails else (0, "Completed"))
        assert not is_ready(pod)
        assert "deletionTimestamp" not in pod["metadata"]


async def test_an_ending_pod_runs_and_is_ready_until_its_container_has_ended(open_bed: OpenBed) -> None:
    async with open_bed() as bed:
        caller = await started(bed, "p", Behaviour(stop_for=3))
        began = bed.clock.now()
        seen = await versions(caller, "p", lambda: caller.call("DELETE", f"{caller.pods}/p"), deleted)
        assert 2 < bed.clock.now() - began < 20
        finished = [pod["status"]["phase"] == "Failed" for _, pod in seen]
        assert finished == sorted(finished), "no version runs after one that has ended"
        assert finished[0] is False
        assert finished[-1] is True
        for _, pod in seen:
            assert "deletionTimestamp" in pod["metadata"]
            assert is_ready(pod) is (pod["status"]["phase"] == "Running")
            if pod["status"]["phase"] == "Running":
                assert list(state(pod)) == ["running"]
            else:
                assert state(pod)["terminated"]["exitCode"] == TERMINATED


async def test_a_container_that_outlives_its_grace_is_killed(open_bed: OpenBed) -> None:
    async with open_bed() as bed:
        caller = await started(bed, "p", Behaviour(stop_for=100), grace_s=3)
        began = bed.clock.now()
        seen = await versions(caller, "p", lambda: caller.call("DELETE", f"{caller.pods}/p"), deleted)
        assert 2 <= bed.clock.now() - began < 20
        assert state(seen[-1][1])["terminated"]["exitCode"] == KILLED


async def test_a_grace_that_is_shortened_does_not_hurry_containers_that_end(open_bed: OpenBed) -> None:
    async with open_bed() as bed:
        caller = await started(bed, "p", Behaviour(stop_for=8))
        began = bed.clock.now()

        async def end_twice() -> None:
            await caller.call("DELETE", f"{caller.pods}/p")
            await asyncio.sleep(1)
            await caller.call("DELETE", f"{caller.pods}/p", {"gracePeriodSeconds": 1})

        seen = await versions(caller, "p", end_twice, deleted)
        assert 7 < bed.clock.now() - began < 25
        assert 1 in {pod["metadata"]["deletionGracePeriodSeconds"] for _, pod in seen}
        assert state(seen[-1][1])["terminated"]["exitCode"] == TERMINATED


async def test_no_client_reports_the_end_of_containers_after_a_forced_deletion(open_bed: OpenBed) -> None:
    async with open_bed() as bed:
        caller = await started(bed, "p", Behaviour(stop_for=5))
        began = bed.clock.now()
        force = {"gracePeriodSeconds": 0}
        seen = await versions(caller, "p", lambda: caller.call("DELETE", f"{caller.pods}/p", force), deleted)
        assert bed.clock.now() - began < 2
        assert all(list(state(pod)) == ["running"] for _, pod in seen)
        assert {pod["status"]["phase"] for _, pod in seen} == {"Running"}


async def test_without_its_kubelet_an_ending_pod_stays_until_the_kubelet_is_back(open_bed: OpenBed) -> None:
    async with open_bed() as bed:
        caller = await started(bed, "p", Behaviour(stop_for=0), grace_s=1)
        await bed.stop_kubelet()
        try:
            await caller.call("DELETE", f"{caller.pods}/p")
            await asyncio.sleep(4)
            pod = await caller.pod("p")
            assert pod["status"]["phase"] == "Running"
            assert "deletionTimestamp" in pod["metadata"]
        finally:
            await bed.start_kubelet()
        await until(lambda: is_gone(caller, "p"), "the Pod is gone")


async def test_an_end_without_a_kubelet_is_reported_when_the_kubelet_is_back(open_bed: OpenBed) -> None:
    async with open_bed() as bed:
        caller = await started(bed, "p", Behaviour(run_for=5))
        await bed.stop_kubelet()
        try:
            await asyncio.sleep(7)
            assert (await caller.pod("p"))["status"]["phase"] == "Running"
        finally:
            await bed.start_kubelet()

        async def succeeded() -> bool:
            return bool((await caller.pod("p"))["status"]["phase"] == "Succeeded")

        await until(succeeded, "the end is reported")


async def test_the_lease_of_a_node_is_renewed_while_its_kubelet_lives(open_bed: OpenBed) -> None:
    async with open_bed() as bed:
        caller = Caller(bed)

        async def spec() -> Json:
            code, lease = await caller.call(
                "GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}"
            )
            assert code == 200, lease
            found: Json = lease["spec"]
            return found

        first = await spec()
        assert (first["holderIdentity"], first["leaseDurationSeconds"]) == (NODE, 40)
        await asyncio.sleep(RENEWED_WITHIN_S)
        second = await spec()
        assert first["renewTime"] < second["renewTime"]
        await bed.stop_kubelet()
        try:
            last = await spec()
            await asyncio.sleep(RENEWED_WITHIN_S)
            assert (await spec())["renewTime"] == last["renewTime"]
        finally:
            await bed.start_kubelet()
