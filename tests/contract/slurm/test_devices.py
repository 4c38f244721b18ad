"""What Slurm has on its nodes, and which of it a job was given: real Slurms and the simulated ones say it alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from extender.domain.job_outcomes.slurm_states import Running
from extender.domain.jobs.devices import numbers, without_cores, written_devices
from extender.domain.jobs.job import JobOrder, JobView, Mode
from extender.domain.policy.site import DEFAULT_GRES_RULES, GresRule, TranslationPolicy
from extender.domain.translation.translate import Translated, translate
from extender.domain.wellknown import DEVICES, GPUS
from extender.slurm.jobs import SlurmrestdJobs
from extender.slurm.nodes import SlurmrestdNodes
from lab.slurm import Partition, Slurm, SlurmNode
from slurmclient import SlurmClient, StaticToken
from tests.builders.job_orders import an_allocation, an_order
from tests.builders.loop_clock import LoopClock
from tests.builders.pod_views import a_pod
from tests.builders.slurm_sites import NODES, LabSite, until
from tests.builders.submitted_jobs import accepted, jobs_of, observed, read
from tests.contract.slurm.conftest import OpenSite

FIRST, *OTHERS = NODES


async def granted(jobs: SlurmrestdJobs, order: JobOrder) -> JobView:
    job_id = await accepted(jobs, order)
    await observed(jobs, job_id, Running)
    return await read(jobs, job_id)


async def named_by_resources(client: SlurmClient, job_id: int) -> list[int]:
    """The same by the request that is made for nothing else."""
    (node,) = await client.resources(job_id)
    return sorted(number for one in node.gres for number in numbers(one.index))


async def test_the_sizes_of_nodes_are_those_of_slurm_conf(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        node = (await SlurmrestdNodes(client, LoopClock()).snapshot()).nodes[FIRST]
        assert (node.cpus, node.memory_mb, node.gres, node.features) == (8, 16_000, {"gpu:h100": 4}, ("h100",))


@pytest.mark.parametrize("mode", [Mode.ALLOCATION, Mode.BATCH, Mode.EXTERNAL])
async def test_the_reading_of_a_job_says_which_devices_it_has(open_site: OpenSite, mode: Mode) -> None:
    async with open_site() as site, site.client() as client:
        if mode is Mode.EXTERNAL and site.release < (26, 5):
            pytest.skip("this Slurm has no external jobs")
        jobs, elsewhere = jobs_of(client), tuple(OTHERS)
        at_once = mode is Mode.ALLOCATION
        typed = an_order("typed", mode=mode, immediate=at_once, excluded=elsewhere, gres={"gpu:h100": 2})
        any_type = an_order("any", mode=mode, immediate=at_once, excluded=elsewhere, gres={"gpu": 1})
        had = []
        for job in [await granted(jobs, typed), await granted(jobs, any_type)]:
            (devices,) = job.devices.values()
            assert tuple(job.devices) == job.nodes == (FIRST,)
            written = written_devices(devices)
            of_job = [int(number) for number in written[GPUS].split(",")]
            assert written[DEVICES] == f"gpu:h100:{len(of_job)}(IDX:{written[GPUS]})"
            if site.release >= (26, 5) and isinstance(site, LabSite):
                assert await named_by_resources(client, job.job_id) == of_job
            had.append(of_job)
        assert [len(one) for one in had] == [2, 1]
        assert len({number for one in had for number in one} & {0, 1, 2, 3}) == 3


async def test_a_job_without_gres_and_one_that_waits_have_no_devices(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        plain = await granted(jobs, an_allocation("plain"))
        assert [without_cores(there) for there in plain.devices.values() if without_cores(there)] == []
        for node in NODES:
            away = tuple(other for other in NODES if other != node)
            await granted(jobs, an_allocation(f"full-{node}", gres={"gpu": 4}, excluded=away))
        waits = await accepted(jobs, an_order("waits", gres={"gpu": 1}))
        assert (await read(jobs, waits)).devices == {}


@pytest.fixture(
    scope="module", params=[pytest.param(name, id=f"lab-{name}", marks=pytest.mark.lab) for name in ("24.11", "26.05")]
)
def parted(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    """A Slurm with parts of GPUs, named as MIG names them, and licences."""
    nodes = [SlurmNode("node-1", cpus=8, memory_mb=16_000, gpus=4, gpu_type="1g.10gb")]
    config = {"Licenses": "matlab:3"}
    with Slurm(release=request.param, nodes=nodes, partitions=[Partition("batch", default=True)], config=config) as it:
        yield it


async def test_controllers_of_gpus_and_licences_are_had_as_the_map_names_them(parted: Slurm) -> None:
    pod = a_pod(more={"nvidia.com/mig-1g.10gb": "2", "example.com/matlab": "2"})
    rules = (*DEFAULT_GRES_RULES, GresRule("example.com/*", "license/{1}"))
    translated = translate([pod], {}, TranslationPolicy(gres_rules=rules), 0.0)
    assert isinstance(translated, Translated)
    assert (translated.request.gres, translated.request.licenses) == ({"gpu:1g.10gb": 2}, "matlab:2")
    async with SlurmClient([parted.rest_url], StaticToken(parted.token("root"))) as client:
        jobs = jobs_of(client)
        order = replace(an_order("mig"), request=replace(translated.request, memory_mb=100))
        job = await granted(jobs, order)
        assert job.gres == {"gpu:1g.10gb": 2}
        assert written_devices(job.devices["node-1"])[DEVICES].startswith("gpu:1g.10gb:2(IDX:")
        assert (await client.job(job.job_id)).licenses == "matlab:2"
        # The third licence is free, and a second job of two has to wait for one.
        waits = await accepted(jobs, an_order("waits", licenses="matlab:2"))
        await until(lambda: read(jobs, waits), lambda one: one.reason == "Licenses", "it waits for a licence")
        for job_id in (waits, job.job_id):
            await client.cancel(job_id)


class Shared(SlurmNode):
    """A node whose GPUs are had whole or in quarters."""

    @property
    def gres(self) -> str:
        return "gpu:h100:4,shard:16"


SHARDS = """AutoDetect=off
NodeName=node-1 Name=gpu Type=h100 File=/dev/nvidia[0-3]
NodeName=node-1 Name=shard Count=16
"""


@pytest.mark.parametrize("release", [pytest.param(name, marks=pytest.mark.lab) for name in ("24.11", "26.05")])
async def test_controllers_of_a_gpu_say_which_one_it_is(release: str) -> None:
    nodes = [Shared("node-1", cpus=8, memory_mb=16_000, gpus=4, gpu_type="h100")]
    partitions = [Partition("batch", default=True)]
    config, files = {"GresTypes": "gpu,shard"}, {"gres.conf": SHARDS}
    with Slurm(release=release, nodes=nodes, partitions=partitions, config=config, files=files) as slurm:
        async with SlurmClient([slurm.rest_url], StaticToken(slurm.token("root"))) as client:
            jobs = jobs_of(client)
            had = []
            for number, gres in enumerate(({"shard": 3}, {"gpu": 1}, {"shard": 2})):
                job = await granted(jobs, an_order(f"workload-{number}", gres=gres))
                had.append(written_devices(job.devices["node-1"])[GPUS])
                if release == "26.05":
                    assert await named_by_resources(client, job.job_id) == [int(had[-1])]
            assert len(set(had)) >= 2  # a GPU that is had whole is in no parts
            assert had[1] not in {had[0], had[2]}
