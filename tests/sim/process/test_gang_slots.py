"""Slots of a gang that runs: nodes that go back to Slurm, successors, and nodes that fail."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from extender.domain.wellknown import GANG, GANG_ANNOTATIONS, GANG_RANK, GANG_SIZE
from extender.runtime.topics import JobEndSeen
from simulator.kube.kubelet import RUN_FOR, STOP_FOR
from simulator.kube.objects import Json
from simulator.slurm.records import SimNode
from tests.builders.gang_pods import an_owner, bound, gang, job_pods
from tests.builders.process_site import Site, a_site

pytestmark = pytest.mark.looptime


async def running_gang(site: Site, size: int = 3, **of: dict[str, str]) -> list[str]:
    """A gang whose members run; `of` has further annotations of single members, by number as `m0`."""
    for number in range(size):
        said = {GANG: "ring", GANG_SIZE: str(size)} | of.get(f"m{number}", {})
        site.kube.add_pod(f"ring-{number}", annotations=said)
    names = [f"ring-{number}" for number in range(size)]
    for name in names:
        await site.bound(name)
    return names


async def succeeded(site: Site, name: str) -> None:
    await site.until(lambda: site.pod(name)["status"]["phase"] == "Succeeded", f"the end of {name}")


def take_off(site: Site, name: str, *keys: str) -> None:
    """Remove annotations of a Pod, as a user may."""

    def edit(pod: Json) -> None:
        for key in keys:
            del pod["metadata"]["annotations"][key]

    site.edit_pod(name, edit)


def nodes_of_job(site: Site) -> tuple[str, ...]:
    (job,) = site.live_jobs()
    return job.nodes


def why(site: Site, name: str) -> str:
    """The answer of `kubectl slurm why`."""
    return site.extender.pod_controllers.explanations.of(site.placeholder(name)).text


async def test_edge_case_14_slurm_has_the_node_of_a_member_that_succeeded_within_a_second(site: Site) -> None:
    async with site.running():
        names = await running_gang(site, m1={RUN_FOR: "5"})
        jobs = [job.job_id for job in site.live_jobs()]
        await succeeded(site, "ring-1")
        await asyncio.sleep(1)
        assert nodes_of_job(site) == ("n1", "n3")
        assert " keeps Slurm node" not in why(site, "ring-0")
        await asyncio.sleep(30)
        assert [job.job_id for job in site.live_jobs()] == jobs
        assert bound(site, names) == 3
        for name in names:
            site.kube.delete_pod(name, grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the end of its job")
        assert site.drained() == []


async def test_edge_case_14_another_pod_gets_the_node_that_a_member_freed(site: Site) -> None:
    async with site.running():
        for number in range(3):
            said = {GANG: "ring", GANG_SIZE: "3", RUN_FOR: "5" if number == 2 else "1000"}
            site.kube.add_pod(f"ring-{number}", annotations=said, cpu="8")
        for number in range(3):
            await site.bound(f"ring-{number}")
        site.kube.add_pod("alone", cpu="8")
        assert await site.bound("alone") == "n3"


async def test_edge_case_14_a_site_that_forbids_shrinking_gets_one_request_and_keeps_the_nodes(site: Site) -> None:
    site.slurm.controller.config = site.slurm.controller._lives._config = replace(
        site.slurm.controller.config, job_shrink=False
    )
    async with site.running():
        await running_gang(site, m1={RUN_FOR: "5"}, m2={RUN_FOR: "50"})
        await succeeded(site, "ring-2")
        await asyncio.sleep(100)
        assert nodes_of_job(site) == ("n1", "n2", "n3")
        assert sum("GangNodesKept" in site.events(name) for name in ("ring-0", "ring-1", "ring-2")) == 1
        assert why(site, "ring-0").endswith("keeps Slurm nodes n2, n3 until the job ends, although no member is there.")
        site.kube.delete_pod("ring-0", grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the end of its job")


async def test_edge_case_14_a_site_that_forbids_shrinking_keeps_the_nodes_of_a_later_gang_without_another_try(
    site: Site,
) -> None:
    site.slurm.controller.config = site.slurm.controller._lives._config = replace(
        site.slurm.controller.config, job_shrink=False
    )
    async with site.running():
        await running_gang(site, m1={RUN_FOR: "5"})
        await succeeded(site, "ring-1")
        await site.until(lambda: "n2" in why(site, "ring-0").partition(". ")[2], "the refusal")
        for name in ("ring-0", "ring-2"):
            site.kube.delete_pod(name, grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the end of its job")
        for number, seconds in enumerate(("1000", "5")):
            site.kube.add_pod(f"pair-{number}", annotations={GANG: "pair", GANG_SIZE: "2", RUN_FOR: seconds})
        await site.bound("pair-0")
        await succeeded(site, "pair-1")
        await asyncio.sleep(30)
        assert "The job keeps Slurm node n2 until the job ends" in why(site, "pair-0")
        assert "GangNodesKept" not in site.events("pair-0")


async def test_edge_case_14_the_node_of_a_member_that_succeeded_stays_usable_where_it_has_no_slurmd() -> None:
    nodes = [SimNode(f"n{number}", cpus=8, memory_mb=64_000, external=True) for number in (1, 2, 3)]
    async with a_site(nodes=nodes) as site, site.running(changed="gangs: {unfenced: allow}\n"):
        said = {"slurm-extender.io/mode": "external"}
        await running_gang(site, m0=said, m1=said | {RUN_FOR: "5"}, m2=said)
        await succeeded(site, "ring-1")
        await asyncio.sleep(60)
        assert not site.slurm.controller.nodes["n2"].silent, "slurmctld asked a node without slurmd"
        assert nodes_of_job(site) == ("n1", "n2", "n3")
        assert sum("GangNodesKept" in site.events(name) for name in ("ring-0", "ring-1", "ring-2")) == 1
        for name in ("ring-0", "ring-2"):
            site.kube.delete_pod(name, grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the end of its job")


async def test_edge_case_15_the_node_of_the_batch_script_is_kept_and_an_event_says_so(site: Site) -> None:
    async with site.running():
        said = {"slurm-extender.io/mode": "batch"}
        await running_gang(site, m0={RUN_FOR: "5"} | said, m1=said | {RUN_FOR: "5"}, m2=said)
        await succeeded(site, "ring-0")
        await asyncio.sleep(30)
        assert nodes_of_job(site) == ("n1", "n3")
        notes = [text for text in site.notes("ring-2") if " keeps Slurm node n1" in text]
        assert len(notes) == 1
        assert why(site, "ring-2").endswith("keeps Slurm node n1 until the job ends, although no member is there.")


async def test_edge_case_20_an_administrator_who_shrinks_the_job_ends_the_members_there_alone(site: Site) -> None:
    async with site.running():
        names = await running_gang(site)
        (job,) = site.live_jobs()
        site.slurm.controller.shrink(job.job_id, ("n1", "n2"))
        await site.gone("ring-2")
        await asyncio.sleep(30)
        assert bound(site, names[:2]) == 2
        assert not any("deletionTimestamp" in site.pod(name)["metadata"] for name in names[:2])
        assert [one.job_id for one in site.live_jobs()] == [job.job_id]
        assert site.drained() == []
        note = next(text for text in site.notes("ring-2") if "Slurm removed" in text)
        assert note == f"Slurm removed Slurm node n3 from job {job.job_id}; members on the other nodes continue."
        gang(site, range(2, 3), 3)
        await asyncio.sleep(60)
        assert bound(site, ["ring-2"]) == 0


async def test_edge_case_20_a_start_finds_that_an_administrator_shrank_the_job_meanwhile(site: Site) -> None:
    async with site.dying():
        names = await running_gang(site)
    (job,) = site.live_jobs()
    site.slurm.controller.shrink(job.job_id, ("n1", "n3"))
    async with site.running():
        await site.gone("ring-1")
        await asyncio.sleep(60)
        assert bound(site, [names[0], names[2]]) == 2
        assert [one.job_id for one in site.live_jobs()] == [job.job_id]
        for name in (names[0], names[2]):
            site.kube.delete_pod(name, grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the end of its job")


async def test_a_node_that_an_administrator_takes_is_drained_until_its_member_is_gone(site: Site) -> None:
    async with site.running():
        await running_gang(site, m2={STOP_FOR: "20"})
        (job,) = site.live_jobs()
        site.slurm.controller.shrink(job.job_id, ("n1", "n2"))
        await site.until(lambda: site.drained() == ["n3"], "the drain")
        await site.gone("ring-2")
        await site.until(lambda: site.drained() == [], "no drain")


@pytest.mark.parametrize("doubt", ["missing", "reported as ended"])
async def test_a_node_that_slurm_took_stays_drained_where_the_job_was_doubted_and_lives(site: Site, doubt: str) -> None:
    async with site.running() as extender:
        await running_gang(site, m2={STOP_FOR: "100"})
        (job,) = site.live_jobs()
        site.slurm.controller.shrink(job.job_id, ("n1", "n2"))
        await site.until(lambda: site.drained() == ["n3"], "the drain")
        await asyncio.sleep(5)
        if doubt == "missing":
            del site.slurm.controller.jobs[job.job_id]
        else:
            extender.events.publish(JobEndSeen(job.job_id))
        await site.until(lambda: site.drained() == ["n1", "n2", "n3"], "the drain of the others", within=10)
        site.slurm.controller.jobs[job.job_id] = job
        lifted: list[str] = []

        def alone() -> bool:
            lifted.extend({"n3"} - set(site.drained()))
            return site.drained() == ["n3"]

        await site.until(alone, "the end of the other drains", within=10)
        for _ in range(100):
            await asyncio.sleep(0.1)
            assert alone()
        assert not lifted
        assert site.pod("ring-2")["metadata"].get("deletionTimestamp")
        await site.gone("ring-2")
        await site.until(lambda: site.drained() == [], "no drain")


def queued_gang(site: Site) -> list[str]:
    for number in range(1, 4):
        site.slurm.controller.drain(f"n{number}", "disk")
    return gang(site, range(3), 3)


async def test_edge_case_6_the_successor_of_a_member_takes_its_place_in_the_job_that_waits(site: Site) -> None:
    async with site.running():
        names = queued_gang(site)
        await site.until(lambda: len(site.live_jobs()) == 1, "its job")
        jobs = [job.job_id for job in site.live_jobs()]
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        await asyncio.sleep(20)
        gang(site, range(1, 2), 3)
        await asyncio.sleep(100)
        for number in range(1, 4):
            site.slurm.controller.undrain(f"n{number}")
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert [job.job_id for job in site.live_jobs()] == jobs


async def test_edge_case_6_without_a_successor_in_time_the_job_that_waits_is_released(site: Site) -> None:
    async with site.running():
        queued_gang(site)
        await site.until(lambda: len(site.live_jobs()) == 1, "its job")
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        await asyncio.sleep(50)
        assert len(site.live_jobs()) == 1
        await asyncio.sleep(30)
        assert site.live_jobs() == []


async def test_edge_case_7_a_job_that_is_granted_while_a_member_is_missing_binds_no_other_before_its_successor(
    site: Site,
) -> None:
    async with site.running():
        names = queued_gang(site)
        await site.until(lambda: len(site.live_jobs()) == 1, "its job")
        jobs = [job.job_id for job in site.live_jobs()]
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        for number in range(1, 4):
            site.slurm.controller.undrain(f"n{number}")
        await asyncio.sleep(15)
        assert bound(site, [names[0], names[2]]) == 0
        gang(site, range(1, 2), 3)
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert [job.job_id for job in site.live_jobs()] == jobs


@pytest.mark.parametrize("how", ["failed", "succeeded"])
async def test_edge_case_13_a_slot_is_kept_for_a_successor_and_then_released(site: Site, how: str) -> None:
    async with site.running():
        if how == "succeeded":  # a Job whose further Pods come when earlier ones have ended
            job = an_owner(site, "Job", "ring", {"parallelism": 3, "completions": 5}, gang="true")
            names = job_pods(site, job, 3)
            site.edit_pod("ring-1", lambda pod: pod["metadata"].update(annotations={RUN_FOR: "5"}))
            for name in names:
                await site.bound(name)
            await succeeded(site, "ring-1")
        else:
            await running_gang(site)
            site.kube.delete_pod("ring-1", grace_s=1)
            await site.gone("ring-1")
        await asyncio.sleep(50)
        assert nodes_of_job(site) == ("n1", "n2", "n3")
        await asyncio.sleep(15)
        assert nodes_of_job(site) == ("n1", "n3")


async def test_edge_case_24_a_later_pod_of_a_job_takes_the_slot_of_one_that_succeeded(site: Site) -> None:
    async with site.running():
        job = an_owner(site, "Job", "ring", {"parallelism": 3, "completions": 5}, gang="true")
        names = job_pods(site, job, 3)
        site.edit_pod("ring-1", lambda pod: pod["metadata"].update(annotations={RUN_FOR: "5"}))
        for name in names:
            await site.bound(name)
        await succeeded(site, "ring-1")
        await asyncio.sleep(3)
        job_pods(site, job, 4, first=3)
        assert await site.bound("ring-3") == "n2"
        assert site.pod("ring-3")["metadata"]["annotations"][GANG_RANK] == "1"
        assert len(site.live_jobs()) == 1


async def test_a_later_pod_that_needs_more_than_its_slot_has_is_refused_and_another_one_takes_it(site: Site) -> None:
    async with site.running():
        await running_gang(site)
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        site.kube.add_pod("ring-1", annotations={GANG: "ring", GANG_SIZE: "3"}, cpu="7")
        await site.until(lambda: "InvalidSlurmSettings" in site.events("ring-1"), "its refusal")
        assert any("It requests 7 CPUs instead of" in text for text in site.notes("ring-1"))
        gang(site, range(4, 5), 3)
        assert await site.bound("ring-4") == "n2"
        assert bound(site, ["ring-1"]) == 0


async def test_after_a_restart_with_a_missing_member_a_later_pod_gets_its_slot(site: Site) -> None:
    async with site.dying():
        await running_gang(site)
    jobs = [job.job_id for job in site.live_jobs()]
    site.kube.delete_pod("ring-1", grace_s=1)
    await site.gone("ring-1")
    async with site.running():
        await asyncio.sleep(10)
        gang(site, range(1, 2), 3)
        assert await site.bound("ring-1") == "n2"
        assert [job.job_id for job in site.live_jobs()] == jobs
        assert "SlurmSettingWithoutEffect" not in site.events("ring-0")


async def test_the_successor_of_a_member_that_was_deleted_by_force_gets_its_slot(site: Site) -> None:
    async with site.running():
        await running_gang(site)
        await asyncio.sleep(5)
        site.kube.delete_pod("ring-1", grace_s=0)
        await site.gone("ring-1")
        gang(site, range(1, 2), 3)
        assert await site.bound("ring-1") == "n2"
        assert len(site.live_jobs()) == 1


async def test_a_member_that_names_no_gang_any_more_keeps_no_successor_waiting_after_a_start(site: Site) -> None:
    async with site.running():
        await running_gang(site)
        take_off(site, "ring-0", GANG, GANG_SIZE)
        await asyncio.sleep(5)
    async with site.running():
        await asyncio.sleep(5)
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        gang(site, range(1, 2), 3)
        assert await site.bound("ring-1") == "n2"


async def test_a_member_that_lost_its_gang_annotations_before_a_start_keeps_its_node(site: Site) -> None:
    async with site.running():
        await running_gang(site)
        await asyncio.sleep(5)
        (job,) = site.live_jobs()
    take_off(site, "ring-1", *GANG_ANNOTATIONS)
    async with site.running():
        await asyncio.sleep(20)
        assert site.drained() == []
        await asyncio.sleep(280)
        assert job.nodes == ("n1", "n2", "n3")
        for name in ("ring-0", "ring-2"):
            site.kube.delete_pod(name, grace_s=1)
        await asyncio.sleep(200)
        assert "deletionTimestamp" not in site.pod("ring-1")["metadata"]
        assert site.live_jobs() == [job]


async def test_a_gang_that_runs_is_not_called_incomplete_after_a_start(site: Site) -> None:
    async with site.running():
        await running_gang(site)
        await asyncio.sleep(5)
    site.kube.delete_pod("ring-1", grace_s=1)
    await site.gone("ring-1")
    take_off(site, "ring-0", GANG, GANG_SIZE)
    async with site.running():
        await asyncio.sleep(10)
        gang(site, range(1, 2), 3)
        await site.bound("ring-1")
        await asyncio.sleep(60)
        assert set(site.extender.gangs.lacking().values()) == {""}


KEEP = {"slurm-extender.io/on-node-failure": "keep"}


async def test_edge_case_16_the_failure_of_a_node_ends_the_whole_gang(site: Site) -> None:
    async with site.running():
        slow = {STOP_FOR: "10"}
        names = await running_gang(site, m0=slow, m1=slow, m2=slow)
        site.slurm.controller.set_down("n2")
        await site.until(lambda: all("deletionTimestamp" in site.pod(name)["metadata"] for name in names), "their ends")
        for name in names:
            (cause,) = [one for one in site.pod(name)["status"]["conditions"] if one["type"] == "DisruptionTarget"]
            assert (cause["reason"], cause["message"]) == ("SlurmNodeFailure", "Slurm job 1 lost a node.")
            assert site.notes(name).count("Slurm job 1 lost a node.") == 1
        for name in names:
            await site.gone(name)
        assert site.live_jobs() == []


async def test_edge_case_16_a_gang_that_says_so_continues_without_the_node_that_failed(site: Site) -> None:
    async with site.running():
        names = await running_gang(site, m0=KEEP, m1=KEEP, m2=KEEP)
        jobs = [job.job_id for job in site.live_jobs()]
        site.slurm.controller.set_down("n2")
        await site.gone("ring-1")
        assert any("node n2" in text and "members on the other nodes continue" in text for text in site.notes("ring-1"))
        await asyncio.sleep(60)
        assert bound(site, [names[0], names[2]]) == 2
        assert [job.job_id for job in site.live_jobs()] == jobs
        gang(site, range(1, 2), 3)
        site.edit_pod("ring-1", lambda pod: pod["metadata"]["annotations"].update(KEEP))
        await asyncio.sleep(60)
        assert bound(site, ["ring-1"]) == 0


@pytest.mark.parametrize("fence_key", ["", "the-sites-own-key"])
async def test_a_pod_on_a_dead_machine_holds_no_node_of_members_that_succeeded(tmp_path: Path, fence_key: str) -> None:
    async with a_site(fence_key=fence_key) as site:
        if fence_key:
            (key := tmp_path / "key").write_text(fence_key)
            site.config = site.config.replace("key: secret", f"key: secret, siteKeyFile: {key}")
        async with site.running():
            ends = KEEP | {RUN_FOR: "60"}
            names = await running_gang(site, m0=ends, m1=ends, m2=KEEP)
            dead = site.pod("ring-2")["spec"]["nodeName"]
            site.kubelets.take_down(dead)
            site.slurm.controller.set_down(dead)
            for name in names[:2]:
                await succeeded(site, name)
            await site.until(lambda: not site.live_jobs(), "the end of the job")
            await asyncio.sleep(60)
            assert site.drained() == [dead]
            assert "deletionTimestamp" in site.pod("ring-2")["metadata"]
            site.kubelets.bring_back(dead)
            await site.gone("ring-2")
            await site.until(lambda: not site.drained(), "the end of the hold")


@pytest.mark.parametrize(("release", "continues"), [("24.11.5", False), ("26.05.5", True)])
async def test_edge_case_16_a_batch_job_whose_own_node_fails_ends_before_26_05(release: str, continues: bool) -> None:
    async with a_site(release=release) as site, site.running():
        said = KEEP | {"slurm-extender.io/mode": "batch"}
        names = await running_gang(site, m0=said, m1=said, m2=said)
        site.slurm.controller.set_down("n1")
        await site.gone("ring-0")
        if not continues:
            for name in names[1:]:
                await site.gone(name)
            return
        await asyncio.sleep(60)
        assert bound(site, names[1:]) == 2
