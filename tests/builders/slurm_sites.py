"""Two kinds of Slurm to ask the same questions: the simulated one and a real one of the lab, with the same operator.

Every site has the nodes `node-1` to `node-3` (8 CPUs, 16000 MB, four `gpu:h100`, feature `h100`), from 26.05 on the
external nodes `ext-1` and `ext-2`, and the partitions of `PARTITIONS`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import jwt

from lab.slurm import Partition, Slurm, SlurmNode
from lab.slurm_conf import BASE, HOME
from simulator.network.memory import Network
from simulator.slurm.batch_script import PostHook
from simulator.slurm.job_lifecycle import Scripts, SimConfig
from simulator.slurm.records import SimJob, SimNode, SimPartition
from simulator.slurm.service import SimSlurm, simulated_slurm
from simulator.slurm.timers import EPOCH
from slurmclient import Dial, SlurmClient, StaticToken

T = TypeVar("T")

NODES = ("node-1", "node-2", "node-3")
EXTERNAL = ("ext-1", "ext-2")
GRACE_S = 10
PROLOG, HELD = "prolog.sh", "prolog-holds"


@dataclass(frozen=True)
class _Part:
    name: str
    nodes: tuple[str, ...] = NODES
    tier: int = 1
    grace_s: int = 0
    max_minutes: int | None = None
    default: bool = False


PARTITIONS = (
    _Part("batch", default=True),
    _Part("high", tier=10),
    _Part("low", grace_s=GRACE_S),
    _Part("short", max_minutes=10),
)
OUTSIDE = _Part("outside", nodes=EXTERNAL)

JWT_KEY = b"0123456789abcdef0123456789abcdef"


class Site(Protocol):
    """Give a test full access to a Slurm, simulated or real."""

    release: tuple[int, int]

    def client(self, user: str = "root", token: str | None = None) -> SlurmClient:
        """Return a client with the token of `user`."""
        ...

    def hooks(self) -> str:
        """Return the base address at which batch scripts of the site reach the hooks of the test."""
        ...

    def drain(self, node: str, reason: str) -> None: ...
    def resume(self, node: str) -> None: ...
    def set_down(self, node: str) -> None: ...
    def hold(self, job_id: int) -> None: ...
    def suspend(self, job_id: int) -> None: ...
    def requeue(self, job_id: int) -> None: ...

    async def script_runs(self, job_id: int) -> None:
        """Wait until the batch script of a running job has started on its node.

        Slurm calls a job running before that, and a signal that comes earlier finds no process and is not repeated
        (slurmd req.c, `_rpc_terminate_tasks`).
        """
        ...

    def install_prolog(self) -> None:
        """Make PrologSlurmctld hold every job from now on, until it is opened."""
        ...

    def open_prolog(self) -> None:
        """Let every job start."""
        ...

    def without_shrinking(self) -> AbstractAsyncContextManager[None]:
        """Set `SchedulerParameters=disable_job_shrink` during the block."""
        ...


@asynccontextmanager
async def sim_site(release: str, post_hook: PostHook | None = None) -> AsyncIterator[SimSite]:
    """Start a simulated Slurm, on the loop that runs."""
    network = Network()
    gpus = {"gpu:h100": 4}
    nodes = [SimNode(name, cpus=8, memory_mb=16_000, gres=gpus, features=("h100",)) for name in NODES]
    parts = list(PARTITIONS)
    if release.startswith("26"):
        nodes += [SimNode(name, cpus=8, memory_mb=16_000, external=True) for name in EXTERNAL]
        parts.append(OUTSIDE)
    partitions = [
        SimPartition(
            part.name,
            part.nodes,
            default=part.default,
            priority_tier=part.tier,
            grace_time_s=part.grace_s,
            max_time_minutes=part.max_minutes,
        )
        for part in parts
    ]
    config = SimConfig(kill_wait_s=10.0, send_user_signal=True)
    async with simulated_slurm(
        network,
        release=release,
        nodes=nodes,
        partitions=partitions,
        config=config,
        post_hook=post_hook,
        jwt_key=JWT_KEY,
    ) as sim:
        yield SimSite(network, sim)


class SimSite:
    """The simulated Slurm."""

    _prolog_opened: asyncio.Event

    def __init__(self, network: Network, sim: SimSlurm) -> None:
        self.sim = sim
        self.network = network
        self.release = sim.controller.release.year_and_month

    def client(self, user: str = "root", token: str | None = None, dial: Dial | None = None) -> SlurmClient:
        claims = {"sun": user, "iat": int(EPOCH), "exp": int(EPOCH) + 10**7}
        minted = token or jwt.encode(claims, JWT_KEY, algorithm="HS256")
        return SlurmClient([self.sim.url], StaticToken(minted), dial=dial or self.network.dial, rng=random.Random(1))

    def hooks(self) -> str:
        return "http://hooks"

    def drain(self, node: str, reason: str) -> None:
        self.sim.controller.drain(node, reason)

    def resume(self, node: str) -> None:
        self.sim.controller.resume(node)

    def set_down(self, node: str) -> None:
        self.sim.controller.set_down(node)

    def hold(self, job_id: int) -> None:
        self.sim.controller.hold(job_id)

    def suspend(self, job_id: int) -> None:
        self.sim.controller.suspend(job_id)

    def requeue(self, job_id: int) -> None:
        self.sim.controller.requeue(job_id)

    async def script_runs(self, job_id: int) -> None:
        """Return at once: a simulated script starts with its job."""

    def install_prolog(self) -> None:
        opened = self._prolog_opened = asyncio.Event()

        async def wait(_job: SimJob) -> int:
            await opened.wait()
            return 0

        self.sim.controller.reconfigure(Scripts(prolog_slurmctld=wait))

    def open_prolog(self) -> None:
        self._prolog_opened.set()

    @asynccontextmanager
    async def without_shrinking(self) -> AsyncIterator[None]:
        controller = self.sim.controller
        before = controller.config
        controller.config = replace(before, job_shrink=False)
        try:
            yield
        finally:
            controller.config = before


def lab_slurm(release: str) -> Slurm:
    """Return a real Slurm of the same shape, not started yet."""
    nodes = [SlurmNode(name, cpus=8, memory_mb=16_000, gpus=4, gpu_type="h100", features=("h100",)) for name in NODES]
    parts = [*PARTITIONS, OUTSIDE] if release.startswith("26") else PARTITIONS
    partitions = [
        Partition(
            part.name,
            nodes=",".join(part.nodes),
            default=part.default,
            priority_tier=part.tier,
            grace_time_s=part.grace_s,
            preempt_mode="cancel",
            extra={} if part.max_minutes is None else {"MaxTime": str(part.max_minutes)},
        )
        for part in parts
    ]
    external = [SlurmNode(name, cpus=8, memory_mb=16_000) for name in EXTERNAL] if release.startswith("26") else []
    config = {"KillWait": "10", "PreemptParameters": "send_user_signal"}
    return Slurm(
        release=release,
        nodes=nodes,
        external_nodes=external,
        partitions=partitions,
        config=config,
        files={PROLOG: f"#!/bin/sh\nwhile [ -e {HOME}/run/{HELD} ]; do sleep 0.1; done\n"},
    )


class LabSite:
    """A real Slurm of the lab."""

    def __init__(self, slurm: Slurm, hooks: str = "") -> None:
        self.slurm = slurm
        self._hooks = hooks
        year, month = slurm.version.split(".")[:2]
        self.release = int(year), int(month)

    def client(self, user: str = "root", token: str | None = None) -> SlurmClient:
        return SlurmClient([self.slurm.rest_url], StaticToken(token or self.slurm.token(user)))

    def hooks(self) -> str:
        return self._hooks

    def drain(self, node: str, reason: str) -> None:
        self.slurm.run("scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}")

    def resume(self, node: str) -> None:
        self.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")

    def set_down(self, node: str) -> None:
        self.slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")

    def hold(self, job_id: int) -> None:
        self.slurm.run("scontrol", "hold", str(job_id))

    def suspend(self, job_id: int) -> None:
        self.slurm.run("scontrol", "suspend", str(job_id))

    def requeue(self, job_id: int) -> None:
        # Placeholders ask never to be requeued; their owner may change that.
        self.slurm.run("scontrol", "update", f"jobid={job_id}", "requeue=1")
        self.slurm.run("scontrol", "requeue", str(job_id))

    async def script_runs(self, job_id: int) -> None:
        script = f"/job{job_id:05d}/slurm_script"

        async def processes() -> str:
            return self.slurm.run("ps", "-e", "-o", "args=")

        await until(processes, lambda text: script in text, f"the script of job {job_id} runs")

    def install_prolog(self) -> None:
        (self.slurm.home / "run" / HELD).touch()
        self.slurm.reconfigure({"PrologSlurmctld": f"{HOME}/etc/{PROLOG}"})
        self.slurm.wait_nodes_ready()

    def open_prolog(self) -> None:
        (self.slurm.home / "run" / HELD).unlink(missing_ok=True)

    def remove_prolog(self) -> None:
        """Remove the PrologSlurmctld again."""
        self.open_prolog()
        self.slurm.reconfigure({"PrologSlurmctld": ""})

    @asynccontextmanager
    async def without_shrinking(self) -> AsyncIterator[None]:
        allowed = BASE["SchedulerParameters"]
        self.slurm.reconfigure({"SchedulerParameters": f"{allowed},disable_job_shrink"})
        self.slurm.wait_nodes_ready()
        try:
            yield
        finally:
            self.slurm.reconfigure({"SchedulerParameters": allowed})
            self.slurm.wait_nodes_ready()


async def until(check: Callable[[], Awaitable[T]], wanted: Callable[[T], bool], what: str, tries: int = 1500) -> T:
    """Check until the result is `wanted`, and return it; at most `tries` times."""
    seen = await check()
    for _ in range(tries):
        if wanted(seen):
            return seen
        await asyncio.sleep(0.05)
        seen = await check()
    raise AssertionError(f"never seen: {what}; last seen: {seen}")
