"""What keeps a node from the next job while a Pod is still there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from simulator.slurm.faults import SlurmFault
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
BY_THE_EPILOG = "slurm-extender: job 1 ended, and the extender did not answer its Epilog"


async def test_a_drain_of_an_epilog_in_the_extenders_name_stays_until_the_pod_is_gone(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", grace_s=30)
        node = await site.bound("web")
        site.kubelets.stop_s = 30.0
        site.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "GET", "/jobs/state")
        site.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "GET", "/job/")
        await asyncio.sleep(2)
        site.slurm.controller.end(site.live_jobs()[0].job_id, "TIMEOUT")
        site.slurm.controller.drain(node, BY_THE_EPILOG)
        for _ in range(60):  # nodes are read all the time, jobs are not
            await asyncio.sleep(1)
            assert site.drained() == [node]
        site.slurm.restd.faults.clear()
        await site.until(lambda: "deletionTimestamp" in site.pod("web")["metadata"], "the end of the Pod begins")
        while site.kube.pod("web") is not None:
            assert site.drained() == [node]
            await asyncio.sleep(0.5)
        await site.until(lambda: not site.drained(), "no drain", within=10)


async def test_a_needless_drain_of_an_epilog_in_the_extenders_name_is_lifted(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web")
        node = await site.bound("web")
        site.slurm.controller.drain(node, BY_THE_EPILOG)
        await site.until(lambda: not site.drained(), "no drain", within=20)
        assert site.node_of("web") == node


async def test_the_grace_of_a_pod_begins_before_its_jobs_time_limit(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", grace_s=20, annotations={"slurm-extender.io/time-limit": "2"})
        await site.bound("web")
        site.kubelets.stop_s = 20.0
        (job,) = site.live_jobs()
        while site.kube.pod("web") is not None:
            assert job.running, "the job ended before its Pod was gone"
            assert not site.drained()
            await asyncio.sleep(0.5)
        await site.until(lambda: not site.live_jobs(), "the end of the job")
        assert job.state != "TIMEOUT"
        assert job.end_time - job.start_time > 90
        assert any("time limit" in text for text in site.notes("web"))


async def test_a_pod_whose_grace_is_as_long_as_its_jobs_limit_runs_for_half_of_it(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", grace_s=600, annotations={"slurm-extender.io/time-limit": "2"})
        await site.bound("web")
        began = asyncio.get_running_loop().time()
        await site.until(lambda: "deletionTimestamp" in site.pod("web")["metadata"], "the end of the Pod begins")
        assert 50 < asyncio.get_running_loop().time() - began < 70


async def test_a_time_limit_that_is_put_off_is_followed(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", grace_s=20, annotations={"slurm-extender.io/time-limit": "2"})
        await site.bound("web")
        (job,) = site.live_jobs()
        await asyncio.sleep(30)
        job.end_time += 600  # scontrol update TimeLimit
        await asyncio.sleep(300)
        assert job.running
        assert "deletionTimestamp" not in site.pod("web")["metadata"]


@pytest.mark.parametrize("answered", [True, False])
async def test_a_node_that_an_administrator_resumes_too_early_is_drained_again_before_it_takes_a_job(
    site: Site, answered: bool
) -> None:
    async with site.running():
        site.kube.add_pod("web", cpu="8", grace_s=60)
        node = await site.bound("web")
        site.kubelets.stop_s = 60.0
        if not answered:
            site.slurm.restd.faults.add(SlurmFault.FAIL_AFTER, "POST", f"/node/{node}", times=1)
        site.slurm.controller.set_down(node)
        await site.until(lambda: site.drained() == [node], "the drain", within=5)
        await asyncio.sleep(0 if answered else 8)  # it is seen, or asked again
        for seconds in (0.0, 0.3, 0.7, 2.0):
            await asyncio.sleep(seconds)
            site.slurm.controller.resume(node)
            await site.until(lambda: site.drained() == [node], "the drain", within=0.3)
        await site.gone("web")
        await site.until(lambda: not site.drained(), "no drain", within=10)


async def test_a_drain_that_slurm_does_not_take_is_repeated_long_before_the_next_read_of_all_nodes(
    site: Site,
) -> None:
    site.config = site.config.replace("refreshRate: 2", "refreshRate: 2, nodesInterval: 60s")
    async with site.running():
        site.kube.add_pod("web", grace_s=60)
        node = await site.bound("web")
        site.kubelets.stop_s = 60.0
        refused = site.slurm.restd.faults.add(SlurmFault.REFUSE, "POST", f"/node/{node}", times=1)
        site.slurm.controller.end(site.live_jobs()[0].job_id, "TIMEOUT")
        await site.until(lambda: site.drained() == [node], "the drain", within=5)
        assert not refused.times


async def test_an_epilog_is_answered_when_the_drain_is_slurms(site: Site, tmp_path: Path) -> None:
    key = tmp_path / "site-key"
    key.write_text("the-sites-own-key")
    site.config = site.config.replace("key: secret", f"key: secret, siteKeyFile: {key}")
    async with site.running():
        site.kube.add_pod("web", grace_s=60)
        node = await site.bound("web")
        site.kubelets.stop_s = 60.0
        site.slurm.controller.end(site.live_jobs()[0].job_id, "TIMEOUT")
        answer = await site.post(f"/hooks/nodes/{node}/drain", "the-sites-own-key")
        assert (answer.status_code, site.drained()) == (202, [node])


async def test_a_node_that_does_not_answer_is_drained_before_it_is_down_until_it_answers_again(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web")
        node = await site.bound("web")
        site.slurm.controller.nodes[node].silent = True
        await site.until(lambda: site.drained() == [node], "the drain", within=12)
        site.slurm.controller.nodes[node].silent = False
        await site.until(lambda: not site.drained(), "no drain", within=10)
        for _ in range(100):  # a lifted drain leaves the node silent for a moment, which must not begin it all again
            await asyncio.sleep(0.2)
            assert not site.drained()
        assert site.node_of("web") == node


async def test_a_node_is_drained_at_the_sight_of_an_end_that_cannot_be_read(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", grace_s=60)
        node = await site.bound("web")
        site.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "GET", "/job/")
        site.slurm.controller.end(site.live_jobs()[0].job_id, "TIMEOUT")
        await site.until(lambda: site.drained() == [node], "the drain", within=1.5)
        site.slurm.restd.faults.clear()
        await site.gone("web")
        await site.until(lambda: not site.drained(), "no drain", within=10)


async def test_the_word_of_epilogslurmctld_drains_at_once_and_is_taken_back_where_the_job_lives(
    site: Site, tmp_path: Path
) -> None:
    key = tmp_path / "site-key"
    key.write_text("the-sites-own-key")
    site.config = site.config.replace("key: secret", f"key: secret, siteKeyFile: {key}")
    async with site.running():
        site.kube.add_pod("web")
        node = await site.bound("web")
        (job,) = site.live_jobs()
        site.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "GET", "/job/")
        site.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "GET", "/jobs/state")
        await site.post(f"/hooks/jobs/{job.job_id}/teardown?wait=0", "the-sites-own-key")
        await site.until(lambda: site.drained() == [node], "the drain", within=0.5)
        await asyncio.sleep(20)
        assert site.drained() == [node], "it was lifted although nobody could say how the job is"
        site.slurm.restd.faults.clear()
        await site.until(lambda: not site.drained(), "no drain", within=30)
        assert (site.node_of("web"), job.running) == (node, True)


async def test_a_pod_that_will_outlive_its_time_limit_has_its_node_held_before(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", grace_s=600, annotations={"slurm-extender.io/time-limit": "2"})
        node = await site.bound("web")
        site.kubelets.stop_s = 600.0
        (job,) = site.live_jobs()
        await site.until(lambda: site.drained() == [node], "the drain", within=200)
        assert job.running
        await site.gone("web")
        await site.until(lambda: not site.drained(), "no drain", within=10)


@pytest.mark.parametrize("restarted", [False, True])
async def test_what_an_administrator_wrote_of_a_node_that_is_down_outlives_the_drain_of_the_extender(
    site: Site, restarted: bool
) -> None:
    async with site.running():
        site.kube.add_pod("web", grace_s=60)
        node = await site.bound("web")
        site.kubelets.stop_s = 60.0
        one = site.slurm.controller.nodes[node]
        site.slurm.controller.set_down(node, "bad DIMM, ticket 4711")
        await site.until(lambda: site.drained() == [node], "the drain", within=5)
        assert one.reason.startswith("slurm-extender: [")
        assert "bad DIMM, ticket 4711" in one.reason
        site.cordon(site.names.kube(node))  # another cause is written into it
        await site.until(lambda: "cordoned" in one.reason, "the other cause", within=5)
        assert "bad DIMM, ticket 4711" in one.reason
        site.cordon(site.names.kube(node), False)
        if not restarted:
            await site.until(lambda: not site.drained(), "no drain", within=120)
    async with site.running():
        await site.until(lambda: not site.drained(), "no drain", within=120)
        assert (one.down, one.reason) == (True, "bad DIMM, ticket 4711")


async def test_a_node_that_went_down_behind_the_extenders_drain_is_down_for_slurm_s_own_reason_after_it(
    site: Site,
) -> None:
    async with site.running():
        site.kube.add_pod("web", grace_s=10)
        node = await site.bound("web")
        one = site.slurm.controller.nodes[node]
        one.silent = True
        await site.until(lambda: site.drained() == [node], "the drain", within=12)
        site.slurm.controller.set_down(node)  # keeps the reason that is there
        assert one.reason.startswith("slurm-extender: [")
        await site.until(lambda: not site.drained(), "no drain", within=120)
        assert (one.down, one.reason) == (True, "Not responding")
