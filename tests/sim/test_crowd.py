"""The simulated Slurm of the benches: tens of thousands of jobs, told as the simulated Slurm tells a few."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence

import pytest

from bench.simulated.crowd import populate, slurm_nodes
from bench.simulated.slurm import FREE, FULL, CrowdedController, CrowdedSlurmrestd
from simulator.cluster import SimCluster, simulated_cluster
from simulator.network.asgi_server import serve
from simulator.network.memory import Network
from simulator.slurm import service
from simulator.slurm.records import SimNode, SimPartition
from simulator.slurm.release import SimRelease
from slurmclient import JobDescription, SlurmClient, SlurmError, StaticToken

pytestmark = pytest.mark.looptime

NODES = 20


@pytest.fixture
async def slurm() -> AsyncIterator[SlurmClient]:
    network = Network()
    controller = CrowdedController([SimNode(f"n{number}", external=True) for number in range(NODES)], 1000.0)
    controller.foreign(30)
    client = SlurmClient(["http://slurm:6820"], StaticToken("t"), dial=network.dial)
    async with serve(network, CrowdedSlurmrestd(controller), "slurm", 6820), client:
        yield client
    await controller.aclose()


def job(name: str, partition: str) -> JobDescription:
    return JobDescription(name=name, partition=partition, external=True, current_working_directory="/")


async def test_others_run_on_every_node_that_is_full_and_wait_besides(slurm: SlurmClient) -> None:
    counts = Counter(word for words in (await slurm.job_states()).values() for word in words)
    assert counts == {"RUNNING": 18, "PENDING": 12}


async def test_a_job_waits_or_has_a_node_at_once_as_its_partition_says(slurm: SlurmClient) -> None:
    waits = await slurm.submit(job("waits", FULL))
    runs = await slurm.allocate(job("runs", FREE))
    with pytest.raises(SlurmError):
        await slurm.allocate(job("refused", FULL))
    assert (await slurm.job(waits.job_id)).nodes == ()
    assert (await slurm.job(runs.job_id)).nodes in {("n0",), ("n1",)}


async def test_a_job_is_found_by_its_name_until_it_has_ended(slurm: SlurmClient) -> None:
    made = await slurm.submit(job("named", FULL))
    assert [found.job_id for found in await slurm.find_jobs_by_name("named")] == [made.job_id]
    assert await slurm.find_jobs_by_name("another") == ()
    await slurm.cancel([made.job_id])
    assert await slurm.find_jobs_by_name("named") == ()


async def test_every_node_is_shown_with_its_partition(slurm: SlurmClient) -> None:
    nodes = (await slurm.nodes()).items
    assert Counter(part for node in nodes for part in node.partitions) == {FULL: 18, FREE: 2}
    assert len({node.name for node in nodes}) == NODES


async def test_pods_of_the_crowd_are_bound_or_have_a_waiting_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def crowded(_: SimRelease, nodes: Sequence[SimNode], __: Sequence[SimPartition], **more: object) -> object:
        epoch = more["epoch"]
        assert isinstance(epoch, float)
        return CrowdedController(nodes, epoch)

    monkeypatch.setattr(service, "Slurmctld", crowded)
    monkeypatch.setattr(service, "Slurmrestd", lambda controller, _key: CrowdedSlurmrestd(controller))
    nodes = slurm_nodes([f"node-{number:04d}" for number in range(NODES)])
    async with simulated_cluster(SimCluster, nodes=nodes) as cluster, cluster.running():
        await populate(cluster.kube, waiting=2, running=2)
        await cluster.until(lambda: len(cluster.bound_pods()) == 2, "the Pods of the free partition are bound", 60.0)
        await cluster.until(lambda: len(cluster.live_jobs()) == 4, "the others have jobs", 60.0)
        assert sorted(cluster.bound_pods()) == ["runs-0", "runs-1"]
        assert Counter(job.state for job in cluster.live_jobs()) == {"RUNNING": 2, "PENDING": 2}
