"""The end of the process: in good order when told, at once and loudly when a part of it dies."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from extender.config.load import parse
from extender.server.life import serve
from extender.server.signal_handlers import SignalHandlers
from extender.server.supervision import TaskDied
from simulator.kube.faults import KubeFault
from simulator.kube.resources import EVENTS
from simulator.slurm import faults as slurm_faults
from tests.builders.process_site import Site
from tests.builders.replicas import replicas

pytestmark = pytest.mark.looptime


async def test_a_binding_under_way_is_finished_and_events_are_sent(site: Site) -> None:
    orders, io_context = SignalHandlers(), site.io_context(site.network)
    process = asyncio.create_task(serve(parse(site.config, "test"), io_context, orders))
    await asyncio.sleep(1)
    site.kube.faults.add(KubeFault("POST", "/binding$", code=None, delay_s=2))
    site.kube.faults.add(KubeFault("POST", "/events", code=None, delay_s=1, times=None))
    site.kube.add_pod("web", annotations={"slurm-extender.io/mode": "batch"})
    await site.until(lambda: any(r.path.endswith("/binding") for r in site.kube.requests), "the Binding is asked for")
    orders.stop.set()
    await asyncio.wait_for(process, 20)
    await io_context.close()
    assert site.node_of("web")
    told = {item["reason"] for item in site.kube.storage.of(EVENTS)}
    assert {"SlurmJobSubmitted", "SlurmJobGranted"} <= told


async def test_the_end_waits_neither_for_scripts_nor_for_a_slurm_that_is_away(site: Site) -> None:
    loop = asyncio.get_running_loop()
    async with site.running():
        site.kubelets.stop_s = 300.0
        site.kube.add_pod("web", annotations={"slurm-extender.io/mode": "batch"}, grace_s=300)
        await site.bound("web")
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        await asyncio.sleep(2)  # its script waits for the Pod now
        site.slurm.restd.faults.add(slurm_faults.SlurmFault.LOSE_REQUEST)
        await asyncio.sleep(5)
        began = loop.time()
    assert loop.time() - began < 3


class BrokenDice(random.Random):
    """Stands for any fault of the program."""

    def uniform(self, a: float, b: float) -> float:
        raise ValueError("boom")


async def test_a_part_that_dies_ends_the_process_and_says_so(site: Site) -> None:
    orders, io_context = SignalHandlers(), replace(site.io_context(site.network), rng=BrokenDice())
    with capture_logs() as logs:
        process = asyncio.create_task(serve(parse(site.config, "test"), io_context, orders))
        await asyncio.sleep(5)
        site.network.cut("kube", 6443)  # a reflector rolls its dice for how long to wait
        with pytest.raises(TaskDied, match="boom"):
            await process
        await io_context.close()
    died = [line for line in logs if line["event"] == "task_failed"]
    assert {line["task"] for line in died} <= {"pods", "nodes"}
    assert {line["log_level"] for line in died} == {"critical"}
    assert "boom" in died[0]["error"]


async def test_a_second_process_can_listen_after_the_first_one_ended(site: Site) -> None:
    for name in ("one", "two"):
        async with site.running():
            site.kube.add_pod(name)
            await site.bound(name)


@pytest.mark.parametrize("seconds", [4.0, 9.0])
async def test_a_job_that_is_requested_when_the_end_is_ordered_is_not_requested_again(
    site: Site, seconds: float
) -> None:
    """slurmctld takes its time, and the next leader looks for the job."""
    async with replicas(site) as both:
        first, _ = await both.led()
        site.slurm.restd.faults.add(slurm_faults.SlurmFault.LATE, "POST", "/job/submit", times=1, seconds=seconds)
        site.kube.add_pod("web", annotations={"slurm-extender.io/mode": "batch"})
        await site.until(lambda: any("/job/submit" in line for line in first.network.writes), "a submission")
        first.terminate()
        await both.led(other_than=first)
        assert first.exit_code == 0 or first.alive
        await site.bound("web")
        await asyncio.sleep(90)
        assert [job.job_id for job in site.slurm.controller.known_jobs()] == [1]
