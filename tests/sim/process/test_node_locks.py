"""While a job runs on a Slurm node that is no placeholder, its Node is locked where the site wants that."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.jobs.identity import encode_mark
from extender.domain.jobs.job import Mark
from extender.domain.wellknown import NATIVE_JOB_TAINT, NATIVE_JOBS
from simulator.kube.objects import Json, a_pod
from simulator.slurm.faults import SlurmFault
from tests.builders.process_site import NAMES, SITE_KEY, Site

pytestmark = pytest.mark.looptime
LOCK = """
nodes: {nativeJobTaint: {effect: NoSchedule}}
"""


def locked(site: Site) -> list[str]:
    """Slurm nodes whose Nodes are."""
    nodes = [site.kube.node(name) or {} for name in NAMES]
    return [
        str(node["metadata"]["name"])
        for node in nodes
        if any(taint["key"] == NATIVE_JOB_TAINT for taint in node["spec"].get("taints") or ())
    ]


async def native(site: Site, number: int = 0) -> tuple[int, str]:
    """A job of somebody else that runs, and its node."""
    memory = {"set": True, "number": 1000}
    job_id = await site.submit_as_another_user(number, {"cpus_per_task": 2, "memory_per_node": memory})
    job = site.slurm.controller.jobs[job_id]
    await site.until(lambda: job.running, "its start")
    return job_id, job.nodes[0]


async def call(site: Site, word: str, node: str, job_id: int, token: str = SITE_KEY) -> tuple[int, object]:
    answer = await site.post(f"/hooks/nodes/{node}/{word}?job={job_id}", token)
    return answer.status_code, answer.json().get("locked")


async def test_a_prolog_is_answered_when_the_node_is_locked_and_the_last_epilog_unlocks_it(keyed: Site) -> None:
    async with keyed.running(changed=LOCK):
        await asyncio.sleep(10)
        (first, node), (second, other) = await native(keyed, 0), await native(keyed, 1)
        assert node == other
        for _ in range(2):
            assert await call(keyed, "lock", node, first) == (200, True)
            assert locked(keyed) == [node]
        assert await call(keyed, "lock", node, second) == (200, True)
        assert await keyed.metric("native_job_nodes") == 1
        assert await keyed.metric("native_jobs") == 2
        keyed.slurm.controller.end(first, "COMPLETED")
        assert (await call(keyed, "unlock", node, first))[0] == 200
        await asyncio.sleep(30)
        assert locked(keyed) == [node]
        keyed.slurm.controller.end(second, "COMPLETED")
        assert (await call(keyed, "unlock", node, second))[0] == 200
        await keyed.until(lambda: not locked(keyed), "no lock", within=5)


@pytest.mark.usefixtures("unhurried")
async def test_a_lock_that_is_not_undone_goes_with_its_job(keyed: Site) -> None:
    async with keyed.running(changed=LOCK):
        await asyncio.sleep(10)
        job_id, node = await native(keyed)
        assert await call(keyed, "lock", node, job_id) == (200, True)
        await asyncio.sleep(120)
        assert locked(keyed) == [node]
        keyed.slurm.controller.end(job_id, "FAILED")
        await keyed.until(lambda: not locked(keyed), "no lock", within=10)


async def test_a_job_without_a_reported_prolog_locks_its_node_too(site: Site) -> None:
    async with site.running(changed=LOCK):
        _, node = await native(site)
        await site.until(lambda: locked(site) == [node], "the lock", within=15)
        shown = (await site.get(8083, "/debug/nodes")).json()
        assert list(shown["nativeJobs"]) == [node]


@pytest.mark.parametrize("lives", [True, False])
async def test_a_restart_keeps_the_lock_of_a_job_that_lives_and_takes_away_that_of_one_that_has_ended(
    keyed: Site, lives: bool
) -> None:
    async with keyed.running(changed=LOCK):
        await asyncio.sleep(10)
        job_id, node = await native(keyed)
        assert await call(keyed, "lock", node, job_id) == (200, True)
    if not lives:
        keyed.slurm.controller.end(job_id, "COMPLETED")
    keyed.slurm.restd.faults.add(SlurmFault.UNAVAILABLE, "GET", f"/job/{job_id}")  # the Node alone names it
    lost: list[float] = []
    async with keyed.running(changed=LOCK):
        for _ in range(600):
            await asyncio.sleep(0.1)
            lost += [] if locked(keyed) else [asyncio.get_running_loop().time()]
        assert bool(lost) is not lives
    async with keyed.running():
        await keyed.until(lambda: not locked(keyed), "no lock where the site wants none", within=15)
        assert all(NATIVE_JOBS not in ((keyed.kube.node(n) or {})["metadata"].get("annotations") or {}) for n in NAMES)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("restarted", [True, False])
async def test_a_lock_goes_where_slurm_gave_the_id_of_its_job_out_again(keyed: Site, restarted: bool) -> None:
    def given_out_again() -> None:
        keyed.slurm.controller.jobs[job_id].admin_comment = encode_mark(Mark("other", "slurm", "workload", 1))

    async with keyed.running(changed=LOCK):
        await asyncio.sleep(10)
        job_id, node = await native(keyed)
        assert await call(keyed, "lock", node, job_id) == (200, True)
        if not restarted:
            keyed.slurm.restd.stop_slurmctld()
            await asyncio.sleep(60)
            given_out_again()
            keyed.slurm.restd.continue_slurmctld()
            await keyed.until(lambda: not locked(keyed), "the lock goes", within=60)
    given_out_again()
    async with keyed.running(changed=LOCK):
        await keyed.until(lambda: not locked(keyed), "the lock goes", within=30)


@pytest.mark.usefixtures("unhurried")
async def test_while_slurm_does_not_answer_the_lock_stays_and_no_job_is_taken_for_native(keyed: Site) -> None:
    async with keyed.running(changed=LOCK):
        await asyncio.sleep(10)
        job_id, node = await native(keyed)
        assert await call(keyed, "lock", node, job_id) == (200, True)
        keyed.slurm.restd.faults.add(SlurmFault.UNAVAILABLE, "GET", "")
        other = next(name for name in NAMES if name != node)
        assert (await call(keyed, "lock", other, 4711))[0] == 503
        await asyncio.sleep(120)
        assert locked(keyed) == [node]


async def test_no_placeholder_locks_its_node_and_its_pod_goes_where_a_native_job_is(keyed: Site) -> None:
    async with keyed.running(changed=LOCK):
        for name in ("web-1", "web-2", "web-3"):
            pod = a_pod(name, cpu="5", annotations={"slurm-extender.io/mode": "batch"})
            pod["spec"]["tolerations"] = [{"key": NATIVE_JOB_TAINT, "operator": "Exists"}]
            keyed.kube.create(pod)
            node = await keyed.bound(name)
            (job,) = keyed.jobs_of(name)
            assert await call(keyed, "lock", node, job.job_id) == (200, False)
        await asyncio.sleep(30)
        assert not locked(keyed)
        _, node = await native(keyed)
        await keyed.until(lambda: locked(keyed) == [node], "the lock", within=15)
        there = next(name for name in keyed.bound_pods() if keyed.node_of(name) == node)
        keyed.kube.delete_pod(there, grace_s=1)
        await keyed.gone(there)
        pod = a_pod("next", cpu="5", annotations={"slurm-extender.io/mode": "batch"})
        pod["spec"]["tolerations"] = [{"key": NATIVE_JOB_TAINT, "operator": "Exists"}]
        keyed.kube.create(pod)
        assert await keyed.bound("next") == node


async def test_a_placeholder_of_another_extender_locks_nothing(keyed: Site) -> None:
    async with keyed.running(changed=LOCK):
        await asyncio.sleep(10)
        mark = encode_mark(Mark("another-cluster", "slurm", "workload", 1))
        job_id = await keyed.submit_as_another_user(0, {"admin_comment": mark})
        job = keyed.slurm.controller.jobs[job_id]
        await keyed.until(lambda: job.running, "its start")
        assert await call(keyed, "lock", job.nodes[0], job_id) == (200, False)
        await asyncio.sleep(30)
        assert not locked(keyed)


async def test_a_write_is_not_repeated_before_the_watch_can_have_reported_it(keyed: Site) -> None:
    async with keyed.running(changed=LOCK):
        await asyncio.sleep(10)
        keyed.kube.caches.stand_still(lambda: True)
        keyed.api.drop_watches()
        await asyncio.sleep(5)
        for number in range(3):
            job_id, node = await native(keyed, number)
            assert (await call(keyed, "lock", node, job_id))[0] == 503
        assert locked(keyed) == [node]
        patches = [one for one in keyed.kube.requests if one.method == "PATCH" and "/nodes/" in one.path]
        assert len(patches) <= 2
        keyed.kube.caches.heal()
        assert await call(keyed, "lock", node, job_id) == (200, True)


async def test_no_client_locks_a_node_without_the_key_or_where_the_site_wants_no_locks(keyed: Site) -> None:
    async with keyed.running(changed=LOCK):
        await asyncio.sleep(10)
        job_id, node = await native(keyed)
        assert (await call(keyed, "lock", node, job_id, "guessed"))[0] == 403
        assert (await call(keyed, "unlock", node, job_id, ""))[0] == 401
    async with keyed.running():
        await asyncio.sleep(10)
        assert await call(keyed, "lock", node, job_id) == (200, False)
        assert not locked(keyed)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("jobs", ["9" * 5000, "4294967295,x,-1", "4000000000," * 5000])
async def test_jobs_that_an_administrator_wrote_on_a_node_do_no_harm(keyed: Site, jobs: str) -> None:
    def write(node: Json) -> None:
        node["metadata"].setdefault("annotations", {})[NATIVE_JOBS] = f"slurm: {jobs}"

    keyed.edit_node(NAMES[0], write)
    keyed.slurm.restd.faults.add(SlurmFault.UNAVAILABLE, "GET", "/job/4")
    async with keyed.running(changed=LOCK):
        await keyed.until(lambda: not locked(keyed), "no lock", within=30)
        await asyncio.sleep(30)
        keyed.slurm.restd.requests.clear()
        await asyncio.sleep(60)
        assert not [path for _, path in keyed.slurm.restd.requests if "/job/4" in path]


@pytest.mark.parametrize("prolog", [True, False])
async def test_a_job_that_goes_back_into_the_queue_locks_nothing_until_it_runs_again(keyed: Site, prolog: bool) -> None:
    async with keyed.running(changed=LOCK):
        await asyncio.sleep(10)
        job_id, node = await native(keyed)
        if prolog:
            assert await call(keyed, "lock", node, job_id) == (200, True)
        await keyed.until(lambda: locked(keyed) == [node], "the lock", within=15)
        job = keyed.slurm.controller.jobs[job_id]
        keyed.slurm.controller.drain(node, "disk")
        keyed.slurm.controller.requeue(job_id)
        await keyed.until(lambda: not locked(keyed), "no lock", within=60)
        await keyed.until(lambda: job.running, "its next start")
        assert job.nodes[0] != node
        await keyed.until(lambda: locked(keyed) == [job.nodes[0]], "the lock of its next node", within=15)


async def test_a_job_that_is_at_once_on_another_node_locks_that_one(keyed: Site) -> None:
    async with keyed.running(changed=LOCK):
        await asyncio.sleep(10)
        job_id, node = await native(keyed)
        assert await call(keyed, "lock", node, job_id) == (200, True)
        job = keyed.slurm.controller.jobs[job_id]
        keyed.slurm.controller.drain(node, "disk")
        keyed.slurm.controller.requeue(job_id)
        await asyncio.sleep(2.5)
        job.begin_time = 0.0
        keyed.slurm.controller.changed()
        await keyed.until(lambda: job.running, "its next start")
        await keyed.until(lambda: locked(keyed) == [job.nodes[0]] != [node], "the lock of its next node", within=30)
