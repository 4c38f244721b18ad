"""The doctor's probe job shows end to end whether the fence script of its node works."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from extender.assembly.io_context import LoopClock
from extender.config.load import parse
from extender.doctor.facts import ProbedFence, ProbeResult
from extender.doctor.gather.probe import gather_fence, submit_probe
from extender.doctor.tools import ONCE, Tools
from simulator.network.httpcore_backend import http_transport
from slurmclient import SlurmClient, StaticToken
from slurmclient.auth import TokenSource
from tests.sim.process.test_fence_evidence import UnprovenSite, new_site

pytestmark = pytest.mark.looptime


async def probe(site: UnprovenSite) -> tuple[ProbeResult, ProbedFence | None]:
    """Submit the probe, end its job as its script does, and ask for the call of the Epilog."""

    def client(address: str, token: TokenSource) -> SlurmClient:
        return SlurmClient([address], token, user="root", dial=site.network.dial, retry=ONCE)

    config = parse(site.config, "test")
    tools = Tools(StaticToken("t"), client, LoopClock(site.kube.wall), http=http_transport(site.network))
    probing = asyncio.create_task(submit_probe(config, tools, "http://slurm:6820", "batch", 60.0))
    await site.until(lambda: any(job.running for job in site.live_jobs()), "the probe runs")
    (job,) = site.live_jobs()
    site.slurm.controller.end(job.job_id, "COMPLETED")
    probed = await probing
    return probed, await gather_fence(config, tools, probed)


async def test_the_call_of_the_epilog_is_seen_and_no_job_is_taken_for_a_placeholder(tmp_path: Path) -> None:
    async with new_site(tmp_path, fenced=True) as site, site.running():
        probed, fence = await probe(site)
        assert probed.code == 0
        assert fence == ProbedFence(called=("n1",))
        await asyncio.sleep(60)
        assert site.evidence() == "", "the probe is no evidence: it is no placeholder job"
        assert not site.drained()


async def test_an_epilog_that_does_not_call_is_missed(tmp_path: Path) -> None:
    async with new_site(tmp_path, fenced=False) as site, site.running():
        _, fence = await probe(site)
        assert fence == ProbedFence(missing=("n1",))


async def test_without_a_site_key_no_call_counts(tmp_path: Path) -> None:
    async with new_site(tmp_path, fenced=True) as site:
        site.config = site.config.replace(f", siteKeyFile: {tmp_path / 'site-key'}", "")
        async with site.running():
            _, fence = await probe(site)
            assert fence == ProbedFence(missing=("n1",), no_key=True)


async def test_an_extender_that_does_not_answer_is_named(tmp_path: Path) -> None:
    async with new_site(tmp_path, fenced=True) as site, site.running():
        site.network.refuse("extender", 8083)
        _, fence = await probe(site)
        assert fence is not None
        assert fence.missing == ("n1",)
        assert "8083" in fence.trouble
