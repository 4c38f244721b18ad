"""Pods that Slurm did not place: it holds what they use, is kept off where it cannot, and places nothing over them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender.controllers.foreign_pods.record import Need
from extender.domain.foreign_pods.mark import decode_foreign_pod_mark
from extender.domain.wellknown import NATIVE_JOB_TAINT
from simulator.cluster import simulated_cluster
from simulator.kube.faults import KubeFault
from simulator.kube.resources import NODES
from simulator.kube.storage import ObjectKey
from simulator.slurm.faults import SlurmFault
from simulator.slurm.job_lifecycle import Scripts
from simulator.slurm.records import SimJob, SimNode, SimPartition
from tests.builders.process_site import NAMES, UNHURRIED, Site

pytestmark = pytest.mark.looptime

ON = "foreignPods: {mode: jobs, partition: foreign}\n"
OTHER = "default-scheduler"
FOREIGN_PARTITION = SimPartition("foreign", priority_tier=1, preempt_mode="")


@asynccontextmanager
async def a_site(release: str = "26.05.5", config: str = ON) -> AsyncIterator[Site]:
    """Three nodes of 8 CPUs on both sides, and a partition for foreign Pods."""
    nodes = [SimNode(name, cpus=8, memory_mb=64_000, gres={"gpu": 2}) for name in NAMES]
    partitions = [SimPartition("batch", default=True), SimPartition("urgent", priority_tier=10), FOREIGN_PARTITION]
    async with simulated_cluster(Site, nodes=nodes, partitions=partitions, release=release) as site:
        site.config = UNHURRIED + config
        yield site


def foreign(site: Site, name: str = "other", node: str = "n1", cpu: str = "4", **fields: Any) -> None:
    site.kube.add_pod(name, scheduler=OTHER, node=node, cpu=cpu, **fields)


def foreign_pods(site: Site, name: str = "other") -> list[SimJob]:
    """Live jobs of a Pod that Slurm did not place."""
    return [
        job
        for job in site.live_jobs()
        if (m := decode_foreign_pod_mark(job.admin_comment)) and m.pod == f"default/{name}"
    ]


def running(site: Site, name: str = "other") -> bool:
    return any(job.running for job in foreign_pods(site, name))


async def held(site: Site, name: str = "other", within: float = 60.0) -> SimJob:
    await site.until(lambda: running(site, name), f"a job for {name}", within)
    (job,) = foreign_pods(site, name)
    return job


def fill(site: Site, node: str = "n1", cpus: int = 8, partition: str = "batch") -> SimJob:
    """A job of another user takes a node."""
    job = SimJob(
        0,
        "theirs",
        1001,
        1001,
        "alice",
        partition,
        site.slurm.controller.timers.wall(),
        cpus,
        1,
        1000,
        {},
        required=(node,),
    )
    site.slurm.controller.submit(job)
    return job


async def test_slurm_holds_what_a_pod_of_another_scheduler_uses_within_a_second_until_it_is_gone() -> None:
    async with a_site() as site, site.running():
        await asyncio.sleep(5)
        foreign(site, gpus=1, memory="1Gi")
        job = await held(site, within=1.0)
        assert (job.nodes, job.cpus_per_node, job.memory_mb, job.gres) == (("n1",), 4, 1024, {"gpu": 1})
        assert (job.external, job.requeue, job.time_limit_s, job.partition) == (True, False, None, "foreign")
        assert job.name.startswith("default/other-")
        site.kube.delete_pod("other", grace_s=1)
        await site.until(lambda: not site.live_jobs(), "its end", 10)
        assert not site.drained()


async def test_a_pod_that_ended_holds_nothing() -> None:
    async with a_site() as site, site.running():
        foreign(site, annotations={"sim.slurm-extender.io/run-for": "5"})
        await held(site)
        site.edit_pod("other", lambda pod: pod["status"].update(phase="Succeeded", containerStatuses=[]))
        await site.until(lambda: not site.live_jobs(), "its end", 10)


async def test_without_it_slurm_is_sent_nothing_and_what_is_left_of_another_time_is_ended() -> None:
    async with a_site(config="") as site:
        async with site.running(changed=ON):
            foreign(site)
            await held(site)
        async with site.running():
            await site.until(lambda: not site.live_jobs(), "the end of the job of another time", 60)
            await asyncio.sleep(60)
            assert not site.live_jobs()


async def test_pods_that_the_site_names_hold_nothing() -> None:
    ignore = "foreignPods: {mode: jobs, partition: foreign, ignore: [{namespace: default, ownerKind: DaemonSet}]}\n"
    async with a_site(config=ignore) as site, site.running():
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
        foreign(site, "agent", owner=owner)
        foreign(site)
        await held(site)
        assert len(site.live_jobs()) == 1


async def test_a_placeholder_that_needs_more_than_the_rest_waits_and_starts_when_the_pod_leaves() -> None:
    async with a_site() as site:
        for node in ("n2", "n3"):
            site.cordon(node)
        async with site.running():
            foreign(site)
            await held(site)
            site.kube.add_pod("web", cpu="6")
            await site.until(lambda: any(job.pending for job in site.jobs_of("web")), "its job waits")
            await asyncio.sleep(30)
            assert site.node_of("web") == ""
            site.kube.delete_pod("other", grace_s=1)
            assert await site.bound("web", within=60) == "n1"


async def test_a_node_without_room_is_drained_and_reported_and_lifted_when_room_is_back() -> None:
    async with a_site() as site, site.running():
        theirs = fill(site, cpus=6)
        await site.until(lambda: theirs.running, "their job")
        foreign(site)
        await site.until(lambda: site.drained() == ["n1"], "a drain", 2)
        await asyncio.sleep(10)
        assert "SlurmNodeOvercommitted" in site.events("n1")
        assert any("default/other" in text and "4 CPUs" in text and "2 CPUs" in text for text in site.notes("n1"))
        assert await site.metric('foreign_pods{state="unreserved"}') == 1
        assert await site.metric("foreign_pods_unreserved_cpus") == 4
        assert await site.metric('foreign_pod_nodes{state="drained"}') == 1
        shown = (await site.get(8083, "/debug/nodes")).json()["foreignPods"]
        assert [(one["node"], one["held"], one["tooLittle"]) for one in shown] == [("n1", 0, "2 CPUs")]
        assert theirs.running
        site.slurm.controller.end(theirs.job_id, "COMPLETED")
        await held(site)
        await site.until(lambda: not site.drained(), "the end of the drain", 30)
        await asyncio.sleep(5)
        assert "ForeignPodsReserved" in site.events("n1")
        assert await site.metric('foreign_pods{state="reserved"}') == 1


async def test_a_node_that_is_cleaned_up_for_minutes_is_requested_once_and_gives_its_room_when_it_is_done() -> None:
    async with a_site() as site, site.running():
        created: list[int] = []
        site.slurm.controller.reconfigure(Scripts(epilog=_five_minutes))
        theirs = fill(site, cpus=1)
        await site.until(lambda: theirs.running, "their job")
        site.slurm.controller.end(theirs.job_id, "COMPLETED")
        await asyncio.sleep(1)
        foreign(site)
        await site.until(lambda: site.drained() == ["n1"], "a drain", 2)
        for _ in range(280):
            await asyncio.sleep(1)
            assert site.drained() == ["n1"], "lifted for nothing"
            created += [job.job_id for job in foreign_pods(site) if job.job_id not in created]
        assert not created
        await held(site)
        await site.until(lambda: not site.drained(), "the end of the drain", 30)


async def _five_minutes(_job: SimJob, _node: str) -> int:
    await asyncio.sleep(300)
    return 0


async def test_room_that_comes_back_goes_to_the_pod_that_runs_and_not_to_who_waits() -> None:
    async with a_site() as site, site.running():
        theirs, next_ = fill(site, cpus=8), fill(site, cpus=8)
        await site.until(lambda: theirs.running, "their job")
        foreign(site)
        await site.until(lambda: site.drained() == ["n1"], "a drain", 2)
        site.slurm.restd.faults.add(SlurmFault.LATE, "POST", "/job/submit", seconds=3.0)
        site.slurm.controller.end(theirs.job_id, "COMPLETED")
        await held(site)
        await site.until(lambda: not site.drained(), "the end of the drain", 30)
        assert next_.pending
        site.kube.delete_pod("other", grace_s=1)
        await site.until(lambda: next_.running, "the next", 60)


async def test_a_pod_whose_job_is_refused_as_such_keeps_no_drain_that_another_requested() -> None:
    async with a_site() as site, site.running():
        await asyncio.sleep(5)
        site.slurm.restd.faults.add(SlurmFault.REFUSE, "POST", "/job/allocate", number=2050, times=1)
        foreign(site, "refused", cpu="1")
        await asyncio.sleep(0.5)
        theirs = fill(site, cpus=6)
        await site.until(lambda: theirs.running, "their job")
        foreign(site, cpu="4")
        await site.until(lambda: site.drained() == ["n1"], "a drain", 2)
        site.slurm.controller.end(theirs.job_id, "COMPLETED")
        await held(site, within=40)
        await site.until(lambda: not site.drained(), "the end of the drain", 5)
        assert not foreign_pods(site, "refused")
        await held(site, "refused", within=60)


async def test_no_job_is_preempted_for_a_pod_that_slurm_did_not_place() -> None:
    async with a_site(config=ON.replace("partition: foreign", "partition: urgent")) as site, site.running():
        theirs = fill(site)
        await site.until(lambda: theirs.running, "their job")
        foreign(site)
        await asyncio.sleep(30)
        assert theirs.running
        assert not foreign_pods(site)
        assert not site.drained()
        assert "ForeignPodsNotReserved" in site.events("n1")
        assert any("may preempt" in text for text in site.notes("n1"))
        assert await site.metric('foreign_pod_nodes{state="undrained"}') == 1


async def test_where_others_of_a_higher_tier_wait_the_node_is_held_until_slurm_holds_the_pod() -> None:
    async with a_site() as site, site.running():
        site.slurm.controller.partitions["batch"].preempt_mode = ""
        for node, cpus in (("n1", 4), ("n3", 8)):
            fill(site, node, cpus)
        await asyncio.sleep(5)
        waits = fill(site, "n3", partition="urgent")
        foreign(site)
        await site.until(lambda: site.drained() == ["n1"], "a drain", 2)
        await held(site, within=120)
        await site.until(lambda: not site.drained(), "no drain is left", 30)
        assert waits.pending


async def test_a_slurm_without_external_jobs_is_an_alarm_that_says_by_how_much() -> None:
    async with a_site("24.11.5") as site, site.running():
        foreign(site)
        await site.until(lambda: "ForeignPodsNotReserved" in site.events("n1"), "an alarm", 20)
        assert any("4 CPUs" in text and "25.05" in text for text in site.notes("n1"))
        assert await site.metric("foreign_pods_unreserved_cpus") == 4
        assert not site.drained()
        site.kube.delete_pod("other", grace_s=1)
        await site.until(lambda: "ForeignPodsReserved" not in site.events("n1"), "nothing is said of an empty node", 20)


@pytest.mark.parametrize("fault", [SlurmFault.LOSE_ANSWER, SlurmFault.LOSE_REQUEST, SlurmFault.FAIL_AFTER])
async def test_a_lost_answer_leaves_one_job(fault: SlurmFault) -> None:
    async with a_site() as site, site.running():
        await asyncio.sleep(5)
        site.slurm.restd.faults.add(fault, "POST", "/job/", times=1)
        foreign(site)
        for _ in range(240):
            await asyncio.sleep(0.25)
            assert len(foreign_pods(site)) <= 1
        assert running(site)


async def test_a_start_finds_the_jobs_of_pods_that_are_there_and_ends_those_of_pods_that_are_not() -> None:
    async with a_site() as site:
        async with site.dying():
            for name in ("stays", "leaves"):
                foreign(site, name, cpu="2")
                await held(site, name)
        (job,) = foreign_pods(site, "stays")
        site.kube.delete_pod("leaves", grace_s=1)
        await site.gone("leaves")
        async with site.running():
            await site.until(lambda: not foreign_pods(site, "leaves"), "the end of the one", 60)
            await asyncio.sleep(60)
            assert foreign_pods(site, "stays") == [job]


async def test_many_missing_pods_keep_their_jobs_until_an_administrator_confirms() -> None:
    async with a_site() as site:
        names = [f"other-{number}" for number in range(12)]
        async with site.dying():
            for number, name in enumerate(names):
                foreign(site, name, NAMES[number % 3], cpu="1")
                await held(site, name)
        for name in names:
            site.kube.delete_pod(name, grace_s=1)
            await site.gone(name)
        async with site.running() as extender:
            await asyncio.sleep(120)
            assert len(site.live_jobs()) == 12
            extender.mass_deletion_guard.confirm()
            await site.until(lambda: not site.live_jobs(), "the end of all", 60)


async def test_a_drain_for_want_of_room_outlives_a_restart() -> None:
    async with a_site() as site:
        theirs = fill(site)
        await site.until(lambda: theirs.running, "their job")
        async with site.dying():
            foreign(site)
            await site.until(lambda: site.drained() == ["n1"], "a drain", 5)
        foreign_end_at = asyncio.get_running_loop().time() + 60
        async with site.running():
            while asyncio.get_running_loop().time() < foreign_end_at:
                await asyncio.sleep(0.25)
                assert site.drained() == ["n1"]
            site.slurm.controller.end(theirs.job_id, "COMPLETED")
            await held(site)
            await site.until(lambda: not site.drained(), "the end of the drain", 30)


async def test_a_job_that_a_user_cancels_is_requested_again() -> None:
    async with a_site() as site, site.running():
        foreign(site)
        first = await held(site)
        site.slurm.controller.cancel(first.job_id)
        await site.until(lambda: running(site) and foreign_pods(site)[0].job_id != first.job_id, "another job", 30)


async def test_jobs_that_end_as_soon_as_they_start_are_requested_less_and_less_often_and_that_is_reported() -> None:
    async with a_site() as site, site.running():
        foreign(site)
        made: set[int] = set()
        for _ in range(1200):
            for job in foreign_pods(site):
                made.add(job.job_id)
                site.slurm.controller.cancel(job.job_id)
            await asyncio.sleep(0.25)
        assert 4 <= len(made) <= 12
        assert "ForeignPodsNotReserved" in site.events("n1")
        assert any("CANCELLED" in text for text in site.notes("n1"))
        await held(site, within=70)
        await asyncio.sleep(100)
        last = foreign_pods(site)[0]
        site.slurm.controller.cancel(last.job_id)
        await site.until(lambda: running(site) and foreign_pods(site)[0] is not last, "another job at once", 5)


async def test_a_pod_that_is_resized_holds_its_new_size() -> None:
    async with a_site() as site, site.running():
        foreign(site)
        await held(site)

        def grow(pod: Any) -> None:
            for which in ("requests", "limits"):
                pod["spec"]["containers"][0]["resources"][which]["cpu"] = "6"

        site.edit_pod("other", grow)
        await site.until(
            lambda: [job.cpus_per_node for job in foreign_pods(site) if job.running] == [6], "six CPUs", 30
        )
        assert len(foreign_pods(site)) == 1


async def test_a_refusal_of_the_size_before_does_not_delay_the_new_size() -> None:
    async with a_site() as site, site.running():
        await asyncio.sleep(5)
        site.slurm.restd.faults.add(SlurmFault.REFUSE, "POST", "/job/allocate", number=2050, times=1)
        site.network.latency = lambda: 0.5
        foreign(site)
        await site.until(lambda: not site.slurm.restd.faults.rules[0].times, "the refusal", 10)
        site.network.latency = lambda: 0.0

        def grow(pod: Any) -> None:
            for which in ("requests", "limits"):
                pod["spec"]["containers"][0]["resources"][which]["cpu"] = "6"

        site.edit_pod("other", grow)
        await site.until(
            lambda: [job.cpus_per_node for job in foreign_pods(site) if job.running] == [6], "six CPUs", 20
        )


async def test_a_pod_that_comes_back_while_its_job_is_read_before_the_end_keeps_it() -> None:
    async with a_site() as site, site.running() as extender:
        foreign(site)
        job = await held(site)
        controller = extender.job_controllers.foreign_pods
        (record,) = controller._records.values()
        requests = controller._requests
        there, record.foreign_pod = record.foreign_pod, None
        site.network.latency = lambda: 0.5
        ended = asyncio.create_task(requests.execute(Need.END, site.uid("other"), record))
        await asyncio.sleep(0.2)
        record.foreign_pod = there
        await ended
        assert job.running


async def test_a_node_that_loses_its_name_in_slurm_keeps_what_is_held_there() -> None:
    async with a_site() as site, site.running():
        foreign(site)
        job = await held(site)
        site.delete_node("n1")
        await asyncio.sleep(60)
        assert foreign_pods(site) == [job]


async def test_a_start_that_does_not_know_on_which_node_a_pod_is_keeps_what_is_held_for_it() -> None:
    async with a_site() as site:
        async with site.dying():
            foreign(site)
            await held(site)
        (job,) = foreign_pods(site)
        site.delete_node("n1")
        async with site.running():
            await asyncio.sleep(90)
            assert foreign_pods(site) == [job]


async def test_two_pods_that_fit_one_by_one_are_not_bound_beside_a_pod_that_slurm_does_not_know_of() -> None:
    async with a_site(config="") as site:
        for node in ("n2", "n3"):
            site.cordon(node)
        site.kube.change(ObjectKey(NODES, "", "n1"), lambda node: node["status"]["allocatable"].update(cpu="8"))
        foreign(site)
        async with site.running():
            await asyncio.sleep(5)
            site.kube.faults.add(KubeFault("POST", "/binding", code=None, delay_s=1.0, times=None))
            for name in ("one", "two"):
                site.kube.add_pod(name, cpu="4")
            await asyncio.sleep(30)
            assert sorted(site.bound_pods()) in (["one"], ["two"])


async def test_what_is_held_for_a_pod_locks_its_node_for_no_other_pods() -> None:
    async with a_site(config=ON + "nodes: {nativeJobTaint: {effect: NoExecute}}\n") as site, site.running():
        foreign(site)
        await held(site)
        await asyncio.sleep(30)
        node = site.kube.node("n1")
        assert node is not None
        assert not any(taint["key"] == NATIVE_JOB_TAINT for taint in node["spec"].get("taints") or ())
