"""Several replicas: one writes, whatever happens to it, and another one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from extender.domain.election import ElectionTiming
from extender.domain.jobs.identity import decode_mark, hook_token
from simulator.kube import faults
from simulator.kube.resources import LEASES
from simulator.kube.storage import ObjectKey
from simulator.slurm.faults import SlurmFault
from tests.builders.process_site import Site
from tests.builders.replicas import Replica, Replicas, replicas

pytestmark = pytest.mark.looptime
MODE = "slurm-extender.io/mode"
LEASE_S = ElectionTiming().lease


async def test_a_pod_is_bound_by_way_of_whichever_replica_is_called(site: Site) -> None:
    async with replicas(site) as both:
        for number in range(6):
            site.kube.add_pod(f"web-{number}", cpu="1")
            await site.bound(f"web-{number}", within=30)
        assert set(both.epochs().values()) == {1}
        assert len(site.live_jobs()) == 6


async def test_a_killed_leader_is_followed_within_the_lease_and_two_seconds(site: Site) -> None:
    async with replicas(site) as both:
        site.kube.add_pod("before")
        await site.bound("before")
        first, _ = await both.led()
        first.kill()
        second, seconds = await both.led(other_than=first)
        assert seconds <= LEASE_S + 2
        site.kube.add_pod("after")
        await site.bound("after", within=30)
        assert second.alive
        await holds(both, ["before", "after"])
        assert sorted(both.epochs().values()) == [1, 2]


async def test_a_leader_that_is_stopped_is_followed_within_two_seconds(site: Site) -> None:
    async with replicas(site) as both:
        first, _ = await both.led()
        site.kube.add_pod("before")
        await site.bound("before")
        first.terminate()
        _, seconds = await both.led(other_than=first)
        assert seconds <= 2
        await first.wait()
        assert first.exit_code == 0
        site.kube.add_pod("after")
        await site.bound("after", within=30)
        await holds(both, ["before", "after"])


async def test_a_leader_that_cannot_renew_stops_writing_before_another_one_leads(site: Site) -> None:
    async with under_load(site, 8) as (both, pods, first):
        first.network.cut_off("kube")
        await asyncio.sleep(10.1)
        sent = len(written(site, first))
        _, seconds = await both.led(other_than=first)
        assert 10.1 + seconds <= LEASE_S + 2
        await asyncio.sleep(20)
        assert len(written(site, first)) == sent
        assert first.exit_code == 1
        first.network.cut_off("kube", away=False)
        await pods.rest()
        await holds(both, pods.names)


async def writes_nothing_more(site: Site, former: Replica, sent: int) -> None:
    """Wait until a former leader, which had sent so many writes, has ended by itself."""
    await former.wait()
    assert former.exit_code == 1
    await asyncio.sleep(5)
    assert len(written(site, former)) == sent


@pytest.mark.parametrize(
    "after", [0.011, pytest.param(0.0, marks=pytest.mark.slow), pytest.param(0.35, marks=pytest.mark.slow)]
)
async def test_a_leader_that_was_stopped_for_longer_than_its_lease_writes_nothing_more(
    site: Site, after: float
) -> None:
    site.network.latency = one_millisecond
    async with under_load(site, 8 + after) as (both, pods, first):
        first.stop()
        await asyncio.sleep(0.1)
        sent = len(written(site, first))
        _, seconds = await both.led(other_than=first)
        assert 0.1 + seconds <= LEASE_S + 2
        await asyncio.sleep(20)
        first.go_on()
        await writes_nothing_more(site, first, sent)
        await pods.rest()
        await holds(both, pods.names)


async def test_a_write_that_was_to_be_tried_again_when_the_leader_was_stopped_is_never_sent(site: Site) -> None:
    async with replicas(site) as both:
        first, _ = await both.led()
        site.kube.faults.add(faults.KubeFault("PATCH", "/pods/", times=None))
        site.kube.add_pod("web")
        await site.until(lambda: sum("PATCH" in one for one in written(site, first)) > 2, "tries to wake its Pod")
        first.stop()
        site.kube.faults.clear()
        sent = len(written(site, first))
        await both.led(other_than=first)
        await site.bound("web")
        first.go_on()  # its tries come before its election's: they were due sooner
        await first.wait()
        assert first.exit_code == 1
        assert len(written(site, first)) == sent


@pytest.mark.slow
async def test_a_leader_that_was_stopped_for_less_than_its_lease_continues(site: Site) -> None:
    async with under_load(site, 8) as (both, pods, first):
        first.stop()
        await asyncio.sleep(5)
        first.go_on()
        await asyncio.sleep(60)
        assert both.holder is first
        assert first.alive
        await pods.rest()
        await holds(both, pods.names)


@pytest.mark.parametrize(
    "after", [0.01, pytest.param(0.004, marks=pytest.mark.slow), pytest.param(0.52, marks=pytest.mark.slow)]
)
async def test_a_leader_killed_under_load_leaves_no_pod_without_and_none_with_two_jobs(
    site: Site, after: float
) -> None:
    site.network.latency = one_millisecond
    async with under_load(site, 8 + after) as (both, pods, first):
        first.kill()
        _, seconds = await both.led(other_than=first)
        assert seconds <= LEASE_S + 2
        await asyncio.sleep(10)
        await pods.rest()
        await holds(both, pods.names)


async def test_jobs_of_many_pods_that_the_next_leader_saw_leave_are_ended_at_once(site: Site) -> None:
    names = [f"web-{number}" for number in range(8)]
    async with replicas(site) as both:
        for name in names:
            site.kube.add_pod(name, cpu="1")
        for name in names:
            await site.bound(name)
        first, _ = await both.led()
        first.kill()
        for name in names:
            site.kube.delete_pod(name, grace_s=1)
        await both.led(other_than=first)
        await site.until(lambda: not site.live_jobs(), "the end of their jobs", within=60)
        assert not site.drained()


async def test_a_leader_that_is_stopped_is_not_taken_for_dead_by_the_next_process_in_its_place(site: Site) -> None:
    async with under_load(site, 8) as (both, pods, first):
        first.stop()
        both.processes[1].kill()
        await asyncio.sleep(0.1)
        sent = len(written(site, first))
        both.start(after=first)
        _, seconds = await both.led(other_than=first)
        assert seconds >= LEASE_S
        first.go_on()
        await writes_nothing_more(site, first, sent)
        await pods.rest()
        await holds(both, pods.names)


async def test_both_replicas_dead_and_back_lose_and_double_nothing(site: Site) -> None:
    async with replicas(site) as both, load(site) as pods:
        await asyncio.sleep(8)
        for process in tuple(both.processes):
            process.kill()
        await asyncio.sleep(20)
        third = both.start()
        both.start()
        leader, seconds = await both.led(other_than=both.processes[0])
        assert leader is third or leader is both.processes[3]
        assert seconds <= LEASE_S + 2  # who never saw it change cannot know that nobody renews it
        await asyncio.sleep(10)
        await pods.rest()
        await holds(both, pods.names)


@pytest.mark.parametrize("pod_stays", [True, False])
async def test_a_job_that_a_former_leader_requested_and_that_appears_minutes_later_is_ended(
    site: Site, pod_stays: bool
) -> None:
    """Nothing that was known at the takeover tells of it: slurmrestd had the request, and Slurm no such job."""
    async with replicas(site) as both:
        first, _ = await both.led()
        site.slurm.restd.faults.add(SlurmFault.LATE, "POST", "/job/", times=1, seconds=150)
        site.kube.add_pod("web", grace_s=1)
        await site.until(lambda: any("/job/" in line for line in first.network.writes), "a submission")
        first.kill()
        await both.led(other_than=first)
        await site.bound("web", within=30)
        (own,) = site.live_jobs()
        if not pod_stays:
            site.kube.delete_pod("web")
            await site.until(lambda: not site.live_jobs(), "the end of the Pod's job")
        await site.until(lambda: 1 in both.epochs().values(), "the late job", within=150)
        await site.until(lambda: site.live_jobs() == [own] * pod_stays, "the end of the late job", within=30)
        await asyncio.sleep(20)
        assert site.live_jobs() == [own] * pod_stays
        assert bool(site.node_of("web")) == pod_stays


async def test_a_deleted_lease_returns_no_replica_to_an_older_epoch(site: Site) -> None:
    async with replicas(site) as both:
        first, _ = await both.led()
        first.terminate()
        second, _ = await both.led(other_than=first)
        both.start()
        await asyncio.sleep(3)
        site.kube.storage.remove(ObjectKey(LEASES, "slurm-extender", "slurm-extender"))
        await second.wait()
        assert second.exit_code == 1
        await both.led(other_than=second)
        assert both.lease["leaseTransitions"] == 3


async def test_jobs_of_a_higher_epoch_from_before_the_lease_was_deleted_are_kept(site: Site) -> None:
    async with replicas(site) as both:
        first, _ = await both.led()
        first.terminate()
        second, _ = await both.led(other_than=first)
        for number in range(3):
            site.kube.add_pod(f"web-{number}", cpu="6")
            await site.bound(f"web-{number}", within=30)
        site.kube.add_pod("waits", cpu="6")
        await site.until(lambda: len(site.live_jobs()) == 4, "a job for each")
        before = both.epochs()
        second.kill()
        site.kube.storage.remove(ObjectKey(LEASES, "slurm-extender", "slurm-extender"))
        both.start()
        await both.led(other_than=second)
        assert both.lease["leaseTransitions"] == 1
        await asyncio.sleep(70)
        assert both.epochs() == before
        assert len(site.live_jobs()) == 4
        site.kube.delete_pod("web-1")
        await site.bound("waits", within=60)
        assert set(both.epochs()) == set(before)


async def test_a_follower_writes_nothing_and_is_ready(site: Site) -> None:
    async with replicas(site) as both, load(site) as pods:
        await asyncio.sleep(20)
        first, second = both.processes
        assert both.holder is first
        assert not written(site, second)
        for process, leads in ((first, 1.0), (second, 0.0)):
            assert (await process.get("health", "/readyz")).text == "ok"
            lines = (await process.get("metrics", "/metrics")).text.splitlines()
            assert f"slurm_extender_leader {leads}" in lines
        verbose = (await second.get("health", "/readyz?verbose")).text
        assert "[+]lease replica-0_" in verbose
        await pods.rest()
        await holds(both, pods.names)


async def test_a_hook_that_waits_at_a_follower_is_answered_by_the_leader(site: Site) -> None:
    async with replicas(site) as both:
        site.kubelets.stop_s = 4.0
        site.kube.add_pod("web", annotations={MODE: "batch"}, grace_s=4)
        await site.bound("web")
        (job,) = site.live_jobs()
        second = both.processes[1]
        key = token_of(both, job.job_id)
        site.kube.delete_pod("web")
        async with site.client(30) as client:
            url = f"http://{second.name}:8000/hooks/jobs/{job.job_id}/teardown?wait=8"
            answer = await client.post(url, headers={"Authorization": f"Bearer {key}"})
        assert (answer.status_code, answer.json()["gone"]) == (200, True)


async def test_a_call_that_was_passed_on_once_goes_no_further(site: Site) -> None:
    async with replicas(site) as both:
        second = both.processes[1]
        await asyncio.sleep(3)
        async with site.client() as client:
            headers = {"X-Slurm-Extender-Forwarded": "1"}
            answer = await client.post(f"http://{second.name}:8080/scheduler/filter", json={}, headers=headers)
        assert answer.status_code == 503
        assert answer.headers["x-slurm-extender-not-the-leader"] == "1"


async def test_a_call_without_a_leader_is_held_and_then_answered_so_that_it_is_repeated(site: Site) -> None:
    async with replicas(site) as both:
        first, second = both.processes
        await asyncio.sleep(3)
        first.kill()
        loop = asyncio.get_running_loop()
        pod = site.kube.add_pod("web", scheduler="nobody-s")
        pod["spec"]["schedulerName"] = "slurm"
        began = loop.time()
        async with site.client() as client:
            arguments = {"Pod": pod, "NodeNames": ["n1"]}
            answer = await client.post(f"http://{second.name}:8080/scheduler/filter", json=arguments)
        assert 3.9 <= loop.time() - began <= 4.5
        assert answer.json()["Error"]


class Load:
    """Pods that come and go until `rest`; `names` are those that stay."""

    def __init__(self, site: Site) -> None:
        self.names: list[str] = []
        self._site = site
        self._task = asyncio.create_task(self._go())

    async def _go(self) -> None:
        for number in range(10_000):
            name = f"load-{number}"
            mode = ("batch", "allocation")[number % 2]
            self._site.kube.add_pod(name, cpu="1", annotations={MODE: mode}, grace_s=1)
            self.names.append(name)
            if len(self.names) > 5:
                self._site.kube.delete_pod(self.names.pop(number % 3))
            await asyncio.sleep(1.3)

    async def rest(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


@asynccontextmanager
async def load(site: Site) -> AsyncIterator[Load]:
    pods = Load(site)
    try:
        yield pods
    finally:
        await pods.rest()


@asynccontextmanager
async def under_load(site: Site, seconds: float) -> AsyncIterator[tuple[Replicas, Load, Replica]]:
    """Replicas that have had so much work, what they have, and the one that leads."""
    async with replicas(site) as both, load(site) as pods:
        first, _ = await both.led()
        await asyncio.sleep(seconds)
        yield both, pods, first


def written(site: Site, process: Replica) -> list[str]:
    """What this process changed in Slurm and Kubernetes, but for the Lease."""
    return [one for one in process.network.writes if "/leases" not in one]


def one_millisecond() -> float:
    return 0.001


def token_of(both: Replicas, job_id: int) -> str:
    job = next(job for job in both.site.jobs() if job.job_id == job_id)
    mark = decode_mark(job.admin_comment)
    assert mark is not None
    return hook_token(b"secret", mark)


async def holds(both: Replicas, names: list[str]) -> None:
    """Each of these Pods has one live job, and no job is without its Pod."""
    site = both.site
    await site.until(lambda: all(site.node_of(name) for name in names), "every Pod is bound", within=600)
    await site.until(lambda: len(site.live_jobs()) == len(names), "as many jobs as Pods", within=700)
    await asyncio.sleep(65)  # longer than a lost answer may still come
    assert {name: len(site.jobs_of(name)) for name in names} == dict.fromkeys(names, 1)
    assert len(site.live_jobs()) == len(names)


async def test_who_does_not_lead_denies_no_pod_and_says_who_knows_of_it(site: Site) -> None:
    async with replicas(site) as both:
        site.kube.add_pod("web")
        await site.bound("web")
        first, _ = await both.led()
        other = next(one for one in both.processes if one is not first)
        for path in ("placeholders", f"placeholders/{site.uid('web')}", "orphans"):
            assert (await first.get("debug", f"/debug/{path}")).status_code == 200
            said = await other.get("debug", f"/debug/{path}")
            assert (said.status_code, f"{first.name}_" in said.json()["error"]) == (503, True)
        assert (await other.get("debug", "/debug/nodes")).json()["slurm"]
