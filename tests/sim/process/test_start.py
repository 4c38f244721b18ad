"""A start without its partners: it waits for them, and then loses no time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from extender.config.load import parse
from extender.domain.verdict import UNREADY_TEXT
from extender.server.life import serve
from extender.server.signal_handlers import SignalHandlers
from simulator.kube.faults import KubeFault
from simulator.kube.objects import owner_reference
from simulator.network.memory import Network
from tests.builders.process_site import Site
from tests.builders.services import args

pytestmark = pytest.mark.looptime


def away(network: Network, host: str, port: int, is_away: bool = True) -> None:
    network.refuse(host, port, is_away)
    if is_away:
        network.cut(host, port)


@asynccontextmanager
async def serving(site: Site) -> AsyncIterator[SignalHandlers]:
    """The process as the command line runs it, ended by SIGTERM."""
    orders, io_context = SignalHandlers(), site.io_context(site.network)
    task = asyncio.create_task(serve(parse(site.config, "test"), io_context, orders))
    try:
        yield orders
        orders.stop.set()
        async with asyncio.timeout(30):
            await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await io_context.close()


@pytest.mark.usefixtures("unhurried")
async def test_without_slurm_it_is_ready_and_submits_the_moment_slurm_comes(site: Site) -> None:
    away(site.network, "slurm", 6820)
    async with site.running():
        site.kube.add_pod("web")
        await asyncio.sleep(300)
        assert (await site.get(8081, "/readyz")).status_code == 200
        assert any("not been read yet" in note for note in site.notes("web"))
        away(site.network, "slurm", 6820, False)
        await site.bound("web", within=15)


async def test_a_pod_that_left_before_slurm_came_gets_no_job(site: Site) -> None:
    away(site.network, "slurm", 6820)
    async with site.running():
        site.kube.add_pod("web")
        await asyncio.sleep(30)
        site.kube.delete_pod("web", grace_s=1)
        await asyncio.sleep(5)
        away(site.network, "slurm", 6820, False)
        await asyncio.sleep(30)
        assert not site.slurm.controller.jobs


@pytest.mark.usefixtures("unhurried")
async def test_pods_of_the_process_before_are_adopted_soon_after_slurm_came(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "its job")
    away(site.network, "slurm", 6820)
    async with site.running():
        await asyncio.sleep(400)
        away(site.network, "slurm", 6820, False)
        adopted = {"waits": "WAITING", "first-0": "BOUND", "first-1": "BOUND", "first-2": "BOUND"}
        await site.until(
            lambda: all(site.placeholder(name).state == state for name, state in adopted.items()),
            "every job is found",
            within=15,
        )
        assert len(site.live_jobs()) == 4


@pytest.mark.usefixtures("unhurried")
async def test_without_the_api_server_it_waits_and_then_works(site: Site) -> None:
    away(site.network, "kube", 6443)
    site.kube.add_pod("web")
    async with serving(site):
        await asyncio.sleep(120)
        away(site.network, "kube", 6443, False)
        await site.bound("web")


async def test_it_is_live_and_says_what_it_lacks_while_the_api_server_is_away(site: Site) -> None:
    away(site.network, "kube", 6443)
    async with serving(site):
        await asyncio.sleep(60)
        assert (await site.get(8081, "/livez")).text == "ok"
        lacking = await site.get(8081, "/readyz")
        assert lacking.status_code == 503
        assert "[-]cluster" in lacking.text
        assert "namespaces/kube-system" in lacking.text
        assert await site.metric("ready") == 0
        assert (await site.get(8083, "/debug/placeholders")).json() == []
        assert (await site.get(8083, "/debug/placeholders/u1")).status_code == 404
        assert (await site.get(8083, "/debug/config")).json()["kind"] == "ExtenderConfiguration"
        assert (await site.post("/hooks/jobs/1/teardown?wait=5", "t")).status_code == 503
        away(site.network, "kube", 6443, False)
        await asyncio.sleep(10)
        assert (await site.get(8081, "/readyz")).text == "ok"
        assert "[+]cluster" in (await site.get(8081, "/readyz?verbose")).text


async def test_kube_scheduler_has_to_retry_while_the_cluster_is_not_identified(site: Site) -> None:
    site.kube.faults.add(KubeFault("GET", "namespaces/kube-system", code=503, times=None))
    async with serving(site):
        await asyncio.sleep(10)
        pod = args("n1")
        assert (await site.post_to_extender("/scheduler/filter", pod))["Error"] == UNREADY_TEXT
        pod["Pod"]["spec"]["schedulerName"] = "default-scheduler"
        assert (await site.post_to_extender("/scheduler/filter", pod))["NodeNames"] == ["n1"]
        binding = {"PodName": "p", "PodNamespace": "ns", "PodUID": "u1", "Node": "n1"}
        assert (await site.post_to_extender("/scheduler/bind", binding))["Error"] == UNREADY_TEXT
        site.kube.add_pod("web")
        await asyncio.sleep(10)
        site.kube.faults.clear()
        await site.bound("web")


async def test_a_list_that_is_refused_is_named_by_the_readiness_check(site: Site) -> None:
    site.kube.faults.add(KubeFault("GET", "/api/v1/pods", code=503, times=None))
    async with serving(site):
        await asyncio.sleep(20)
        lacking = (await site.get(8081, "/readyz")).text.splitlines()
        assert any(line.startswith("[-]pods") and "503" in line for line in lacking)
        assert any(line.startswith("[+]nodes") for line in lacking)


async def test_lists_watches_and_events_are_counted_for_operators(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web")
        await site.bound("web")
        site.kube.faults.add(KubeFault("GET", "/api/v1/nodes", watch=True, code=410, reason="Expired"))
        site.network.cut("kube", 6443)
        await asyncio.sleep(60)
        shown = (await site.get(8082, "/metrics")).text.splitlines()
    counted = {line.split()[0]: float(line.split()[-1]) for line in shown if "_kube_" in line and line[0] != "#"}
    assert counted['slurm_extender_kube_lists_total{resource="pods"}'] == 1
    assert counted['slurm_extender_kube_lists_total{resource="nodes"}'] == 2
    assert counted['slurm_extender_kube_watches_total{resource="pods"}'] == 2
    assert counted['slurm_extender_kube_relists_total{resource="pods"}'] == 0
    assert counted['slurm_extender_kube_relists_total{resource="nodes"}'] == 1
    assert counted['slurm_extender_kube_events_total{result="sent"}'] >= 2


async def test_a_pod_whose_owner_cannot_be_read_is_named_by_the_readiness_check(site: Site) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"}}
    site.kube.add_pod("web", owner=owner_reference(site.kube.create(owner)))
    site.kube.faults.add(KubeFault("GET", "replicasets", code=503, times=None))
    async with serving(site):
        await asyncio.sleep(15)
        lacking = (await site.get(8081, "/readyz")).text.splitlines()
        assert any(line.startswith("[-]adopted") and "default/web" in line and "503" in line for line in lacking)
        site.kube.faults.clear()
        await site.bound("web")
        assert "[+]adopted every Pod" in (await site.get(8081, "/readyz?verbose")).text


async def test_it_can_be_stopped_while_it_waits_for_the_api_server(site: Site) -> None:
    away(site.network, "kube", 6443)
    async with serving(site):
        await asyncio.sleep(20)


async def test_it_can_be_stopped_while_it_takes_the_cluster_up(site: Site) -> None:
    site.kube.faults.add(KubeFault("GET", "/api/v1/pods", code=503, times=None))
    async with serving(site):
        await asyncio.sleep(20)


async def test_an_owner_that_cannot_be_read_for_a_while_delays_the_start_and_loses_nothing(site: Site) -> None:
    owner = site.kube.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": "web",
                "namespace": "default",
                "annotations": {"slurmjob.slinky.slurm.net/job-name": "nice"},
            },
        }
    )
    reference = owner_reference(owner)
    async with site.running():
        site.kube.add_pod("web", owner=reference)
        await site.bound("web")
    site.kube.faults.add(KubeFault("GET", "replicasets", code=503, times=30))
    site.kube.add_pod("other", owner=reference)
    async with site.running():
        await site.bound("other")
        assert len(site.live_jobs()) == 2
        assert {job.name.rpartition("-")[0] for job in site.live_jobs()} == {"nice"}
