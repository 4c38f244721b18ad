"""Partners that are away, slow or talk nonsense: nothing is cancelled or ended, and all goes on afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from simulator.kube import faults as kube_faults
from simulator.network.memory import Network
from simulator.slurm.faults import SlurmFault
from simulator.slurm.records import SimNode
from simulator.slurm.service import simulated_slurm
from tests.builders.process_site import CONFIG, UNHURRIED, Site

pytestmark = pytest.mark.looptime


@dataclass(frozen=True)
class Outage:
    begin: Callable[[Site], object]
    end: Callable[[Site], object]


def _down(host: str, port: int) -> Outage:
    def begin(site: Site) -> None:
        site.network.refuse(host, port)
        site.network.cut(host, port)

    return Outage(begin, lambda site: site.network.refuse(host, port, refused=False))


def _stalled(host: str, port: int) -> Outage:
    return Outage(lambda site: site.network.stall(host, port), lambda site: site.network.resume(host, port))


def _slurm(fault: SlurmFault, *, seconds: float = 0.0, number: int = 0) -> Outage:
    return Outage(
        lambda site: site.slurm.restd.faults.add(fault, seconds=seconds, number=number),
        lambda site: site.slurm.restd.faults.clear(),
    )


def _kube(**fault: object) -> Outage:
    def begin(site: Site) -> None:
        site.kube.faults.add(kube_faults.KubeFault(times=None, **fault))  # type: ignore[arg-type]
        site.network.cut("kube", 6443)

    return Outage(begin, lambda site: site.kube.faults.clear())


OUTAGES = {
    "slurmrestd is away": _down("slurm", 6820),
    "slurmrestd hangs": _stalled("slurm", 6820),
    "slurmrestd is slow": _slurm(SlurmFault.DELAY, seconds=6),
    "slurmctld is away": _slurm(SlurmFault.UNAVAILABLE),
    "slurmctld stands still": Outage(
        lambda site: site.slurm.restd.stop_slurmctld(), lambda site: site.slurm.restd.continue_slurmctld()
    ),
    "slurmrestd answers garbage": _slurm(SlurmFault.GARBAGE),
    "slurmctld answers errors": _slurm(SlurmFault.REFUSE, number=1800),
    "answers of slurmrestd are lost": _slurm(SlurmFault.LOSE_ANSWER),
    "questions to slurmrestd are lost": _slurm(SlurmFault.LOSE_REQUEST),
    "slurmrestd fails after the operation": _slurm(SlurmFault.FAIL_AFTER),
    "the token has expired": _slurm(SlurmFault.REFUSE, number=1007),
    "the API server is away": _down("kube", 6443),
    "the API server hangs": _stalled("kube", 6443),
    "the API server answers 500": _kube(code=500),
    "the API server is slow": _kube(code=None, delay_s=6),
    "the API server answers garbage": _kube(code=None, garbage=True),
    "etcd is away": Outage(
        lambda site: site.kube.faults.add(
            kube_faults.KubeFault(
                code=504, reason="Timeout", message="etcdserver: request timed out", delay_s=5, times=None
            )
        ),
        lambda site: site.kube.faults.clear(),
    ),
    "the API server answers 503": _kube(code=503, reason="ServiceUnavailable"),
    "the API server knows us no more": _kube(code=401, reason="Unauthorized"),
    "the API server throttles": _kube(code=429, reason="TooManyRequests", retry_after_s=5),
    "answers of the API server are lost": _kube(code=500, after=True),
    "watches have expired": _kube(code=410, reason="Expired", watch=True),
}


RARE_POLLS = CONFIG.replace("{refreshRate: 2}", "{refreshRate: 0.2}\npolling: {minInterval: 1, maxInterval: 5}")
"""Where minutes pass and nothing depends on how often Slurm is asked."""

TEN_MINUTES = (
    "slurmrestd is away",
    "slurmctld is away",
    "slurmctld stands still",
    "slurmrestd is slow",
    "slurmrestd answers garbage",
    "the API server is away",
    "the API server is slow",
    "the API server answers garbage",
    "etcd is away",
)
"""What is tried for so long too; in every run, only those in which a partner is gone."""


def _lengths() -> Sequence[object]:
    slow = [pytest.param(name, 600.0, marks=pytest.mark.slow) for name in TEN_MINUTES if not name.endswith("away")]
    quick = [pytest.param(name, 600.0) for name in TEN_MINUTES if name.endswith("away")]
    return [pytest.param(name, 120.0) for name in OUTAGES] + quick + slow


@pytest.mark.parametrize(("name", "seconds"), _lengths())
async def test_an_outage_ends_nothing_and_all_continues_afterwards(site: Site, name: str, seconds: float) -> None:
    outage = OUTAGES[name]
    site.config = RARE_POLLS if seconds > 120 else UNHURRIED
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "a waiting job")
        before = {job.job_id for job in site.live_jobs()}
        running = {f"first-{number}": site.node_of(f"first-{number}") for number in range(3)}
        outage.begin(site)
        await asyncio.sleep(seconds / 2)
        site.kube.add_pod("late", cpu="4")
        await asyncio.sleep(seconds / 2)
        assert {pod: site.node_of(pod) for pod in running} == running
        assert all("deletionTimestamp" not in site.pod(pod)["metadata"] for pod in running)
        assert before <= {job.job_id for job in site.live_jobs()}
        outage.end(site)
        site.kube.delete_pod("first-1", grace_s=1)
        assert await site.bound("waits") == running["first-1"]
        site.kube.delete_pod("first-2", grace_s=1)
        assert await site.bound("late") == running["first-2"]
        await site.until(lambda: len(site.live_jobs()) == 3, "one job for each Pod and no more", within=200)
        assert before >= {job.job_id for job in site.jobs_of("waits")}
        assert not site.drained()


async def test_pods_that_end_during_an_outage_of_slurm_end_their_jobs_afterwards(site: Site) -> None:
    site.config = RARE_POLLS
    async with site.running():
        await site.fill()
        OUTAGES["slurmrestd is away"].begin(site)
        site.kube.delete_pod("first-0", grace_s=1)
        await asyncio.sleep(600)
        assert len(site.live_jobs()) == 3
        OUTAGES["slurmrestd is away"].end(site)
        await site.until(lambda: len(site.live_jobs()) == 2, "its end", within=60)


async def test_pods_that_end_during_an_outage_of_the_api_server_end_their_jobs_afterwards(site: Site) -> None:
    site.config = RARE_POLLS
    async with site.running():
        await site.fill()
        OUTAGES["the API server is away"].begin(site)
        site.kube.delete_pod("first-0", grace_s=1)
        await asyncio.sleep(600)
        OUTAGES["the API server is away"].end(site)
        await site.until(lambda: len(site.live_jobs()) == 2, "its end", within=60)


async def test_a_job_that_ends_during_an_outage_of_the_api_server_ends_its_pod_afterwards(site: Site) -> None:
    site.config = RARE_POLLS
    async with site.running():
        await site.fill()
        (job,) = site.jobs_of("first-0")
        OUTAGES["the API server is away"].begin(site)
        site.slurm.controller.end(job.job_id, "TIMEOUT")
        await asyncio.sleep(600)
        assert site.drained() == list(job.nodes)
        OUTAGES["the API server is away"].end(site)
        await site.gone("first-0")
        await site.until(lambda: not site.drained(), "no drain left")


async def test_what_slurm_does_during_its_outage_is_seen_afterwards(site: Site) -> None:
    site.config = RARE_POLLS
    async with site.running():
        await site.fill()
        (job,) = site.jobs_of("first-0")
        OUTAGES["slurmrestd hangs"].begin(site)
        await asyncio.sleep(100)
        site.slurm.controller.set_down(job.nodes[0])
        await asyncio.sleep(100)
        OUTAGES["slurmrestd hangs"].end(site)
        await site.gone("first-0")


async def test_jobs_are_hardly_read_while_slurm_does_not_answer_polls(site: Site) -> None:
    async with site.running():
        await site.fill()
        reads = site.slurm.restd.faults.add(SlurmFault.UNAVAILABLE, "GET", "/job/")
        site.slurm.restd.faults.add(SlurmFault.UNAVAILABLE)
        await asyncio.sleep(100)  # what was asked before the poll failed is still repeated for a while
        left = reads.times
        await asyncio.sleep(100)
        assert left - reads.times <= 20  # one read at a time tries whether those are answered
        site.slurm.restd.faults.clear()
        site.slurm.controller.end(site.jobs_of("first-0")[0].job_id, "TIMEOUT")
        await site.gone("first-0", within=10)


async def test_a_change_whose_read_failed_is_read_again_with_the_next_poll(site: Site) -> None:
    site.config = CONFIG.replace("refreshRate: 2", "refreshRate: 0.001")
    async with site.running():
        await site.fill()
        (job,) = site.jobs_of("first-0")
        failing = site.slurm.restd.faults.add(SlurmFault.REFUSE, "GET", f"/job/{job.job_id}", number=1800, times=4)
        site.slurm.controller.set_down(job.nodes[0])
        await site.gone("first-0", within=10)
        assert not failing.times


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("slurmrestd is away", "slurm"),
        ("slurmctld is away", "slurm"),
        ("the token has expired", "slurm"),
        ("the API server is away", "kubernetes"),
        ("the API server answers 503", "kubernetes"),
    ],
)
async def test_operators_learn_of_an_outage_and_of_its_end(site: Site, name: str, part: str) -> None:
    async def health_line() -> str:
        """The line of `/readyz?verbose` about that part; readiness itself does not suffer."""
        answer = await site.get(8081, "/readyz?verbose")
        assert answer.status_code == 200
        (line,) = [line for line in answer.text.splitlines() if line[3:].split()[0] == part]
        return line

    async with site.running():
        assert (await health_line()).startswith("[+]")
        OUTAGES[name].begin(site)
        await asyncio.sleep(20)
        assert (await health_line()).startswith("[-]")
        if part == "slurm":
            assert site.kube.wall() - await site.metric("last_poll_timestamp_seconds") > 15
        OUTAGES[name].end(site)
        await asyncio.sleep(60)
        assert (await health_line()).startswith("[+]")
        assert site.kube.wall() - await site.metric("last_poll_timestamp_seconds") < 15


async def test_a_start_that_meets_another_slurm_ends_no_pod(site: Site) -> None:
    restd, own = site.slurm.restd, site.slurm.controller
    async with site.dying():
        await site.fill()
    async with simulated_slurm(Network(), nodes=[SimNode("x1")], partitions=own.partitions.values()) as other:
        restd.controller = other.controller
        async with site.running():
            await asyncio.sleep(120)
            assert "EvictionPaused" in site.events("first-0")
        restd.controller = own
    assert not any("deletionTimestamp" in site.pod(f"first-{number}")["metadata"] for number in range(3))
    async with site.running():
        await asyncio.sleep(60)
        assert len(site.live_jobs()) == 3


async def test_another_slurm_behind_the_same_address_is_not_trusted(site: Site) -> None:
    restd, own = site.slurm.restd, site.slurm.controller
    async with site.running():
        await site.fill()
        await asyncio.sleep(5)
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "a waiting job")
        nodes = [SimNode("x1", cpus=8)]
        async with simulated_slurm(Network(), nodes=nodes, partitions=own.partitions.values()) as other:
            restd.controller, restd.cluster = other.controller, "other"
            await asyncio.sleep(60)
            site.kube.delete_pod("first-0", grace_s=1)
            await asyncio.sleep(60)
            assert not other.controller.known_jobs()
            restd.controller, restd.cluster = own, "sim"
        assert not any("deletionTimestamp" in site.pod(f"first-{number}")["metadata"] for number in (1, 2))
        await site.bound("waits", within=60)
        await site.until(lambda: len(site.live_jobs()) == 3, "one job for each Pod", within=60)
        assert not site.drained()
