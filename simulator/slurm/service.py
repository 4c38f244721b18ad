"""A whole simulated Slurm at an address of the in-memory network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from simulator.network.asgi_server import serve
from simulator.network.memory import Network
from simulator.slurm.batch_script import PostHook
from simulator.slurm.job_lifecycle import Scripts, SimConfig
from simulator.slurm.records import SimNode, SimPartition
from simulator.slurm.release import NEWEST, SimRelease
from simulator.slurm.slurmctld import Slurmctld
from simulator.slurm.slurmrestd import Slurmrestd
from simulator.slurm.timers import EPOCH


@dataclass(frozen=True, slots=True)
class SimSlurm:
    """A running one: its controller to act as operator with, its slurmrestd to inject faults into, its address."""

    controller: Slurmctld
    restd: Slurmrestd
    url: str


@asynccontextmanager
async def simulated_slurm(
    network: Network,
    *,
    release: str = NEWEST,
    nodes: Iterable[SimNode],
    partitions: Iterable[SimPartition] = (SimPartition("batch", default=True),),
    config: SimConfig | None = None,
    post_hook: PostHook | None = None,
    scripts: Scripts | None = None,
    jwt_key: bytes | None = None,
    host: str = "slurm",
    port: int = 6820,
    epoch: float = EPOCH,
) -> AsyncIterator[SimSlurm]:
    """Serve a Slurm at `host`:`port` of `network` until the block is left. `epoch`: its wall clock at the loop's 0."""
    kind = SimRelease(release)
    controller = Slurmctld(kind, nodes, partitions, config=config, post_hook=post_hook, scripts=scripts, epoch=epoch)
    restd = Slurmrestd(controller, jwt_key)
    try:
        async with serve(network, restd, host, port):
            yield SimSlurm(controller, restd, f"http://{host}:{port}")
    finally:
        await controller.aclose()
