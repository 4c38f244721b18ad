"""Several extenders in one simulated cluster, each a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

from extender.domain.jobs.identity import mark_of
from extender.domain.jobs.job import JobView
from simulator.kube.kubelet import NODE_LEASES
from simulator.kube.resources import LEASES
from simulator.network.httpcore_backend import http_transport
from simulator.network.request_tap import RequestTap
from simulator.replicas.process import ExtenderProcess, config_of
from tests.builders.process_site import CONFIG, FOREIGN_PODS, IMPATIENT, REGISTERING, Site

PORTS = {"scheduling": 8080, "hooks": 8000, "health": 8081, "metrics": 8082, "debug": 8083}


class Replica(ExtenderProcess):
    """Run one extender, and send requests to its endpoints."""

    async def get(self, endpoint: str, path: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=http_transport(self._cluster.network)) as client:
            return await client.get(f"http://{self.name}:{PORTS[endpoint]}{path}")


class Replicas:
    """Manage the processes behind the name `extender`."""

    def __init__(self, site: Site, config: str = "") -> None:
        self.site = site
        self.config = config
        self.processes: list[Replica] = []

    def start(
        self,
        tap: RequestTap | None = None,
        edit: Callable[[str], str] = lambda config: config,
        after: Replica | None = None,
    ) -> Replica:
        """Start one more; its name is a host of its own. `edit` changes its configuration.

        `after`: it runs in the place of this one, as a container that starts again.
        """
        name = f"replica-{len(self.processes)}"
        # Slower polls: they are most of the work of a test.
        config = (
            CONFIG.replace("{refreshRate: 2}", "{refreshRate: 1}\npolling: {minInterval: 1s}")
            + REGISTERING
            + FOREIGN_PODS
        )
        config += IMPATIENT + self.config
        place = "" if after is None else after.place
        process = Replica(self.site, name, config_of(name, edit(config)), tap, place=place)
        self.processes.append(process)
        self.site.network.services.setdefault("extender", []).append(process.name)
        return process

    @property
    def lease(self) -> dict[str, object]:
        """Return the Lease of the extenders; kubelets have theirs in another namespace."""
        kept = self.site.kube.storage.of(LEASES)
        leases = [one for one in kept if one["metadata"]["namespace"] != NODE_LEASES]
        spec: dict[str, object] = leases[0]["spec"] if leases else {}
        return spec

    @property
    def holder(self) -> Replica | None:
        """Return the replica that the Lease names, dead or alive."""
        said = str(self.lease.get("holderIdentity") or "").rpartition("_")[0]
        return next((one for one in self.processes if one.name == said), None)

    async def led(self, other_than: Replica | None = None, within: float = 60.0) -> tuple[Replica, float]:
        """Wait for a leader; gives it and the seconds that it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()

        def found() -> bool:
            return self.holder is not None and self.holder is not other_than

        await self.site.until(found, "a leader", within)
        assert self.holder is not None
        return self.holder, loop.time() - began

    def epochs(self) -> dict[int, int]:
        """Return the epoch of every job that Slurm knows."""
        marks = {
            job.job_id: mark_of(JobView(job.job_id, job.name, job.state, admin_comment=job.admin_comment))
            for job in self.site.jobs()
        }
        return {job_id: mark.epoch for job_id, mark in marks.items() if mark is not None}


@asynccontextmanager
async def replicas(
    site: Site, number: int = 2, tap: RequestTap | None = None, config: str = ""
) -> AsyncIterator[Replicas]:
    """Start so many, of which the first one leads; `tap` gets its requests. `config` is appended to that of each."""
    found = Replicas(site, config)
    try:
        found.start(tap)
        await found.led()
        for _ in range(number - 1):
            found.start()
        yield found
    finally:
        for process in found.processes:
            process.kill()
            await process.wait()
