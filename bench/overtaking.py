"""How long a large job waits while small ones keep coming to its nodes through another partition.

`job/allocate` (immediate) starts a job between two of slurmctld's passes, if its nodes have room and slurmctld finds no
job that goes before it (`_top_priority` in `job_mgr.c`). `job/submit` leaves it to a pass, which takes the nodes of the
first job that cannot start from all that come after it, whatever their partition (`schedule` in `job_scheduler.c`).
Here two partitions of one tier share a node. Small jobs come to one of them, four a second, each for two seconds, so
that they need half of that node; a large one that needs all of it, and a second node, is queued in the other.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.figures import write
from lab.slurm import Partition, Slurm, SlurmNode
from slurmclient import CapacityError, JobDescription, RefusedError, SlurmClient, StaticToken

CPUS = 32
SMALL_CPUS = 2
EVERY = 0.25
"""Seconds between two small jobs."""

LASTS = 2.0
"""Seconds for which a small job holds its CPUs."""

WARM = 3.0
"""Seconds of small jobs before the large one is queued."""

LONGEST = 12.0
"""Seconds for which small jobs keep coming after it was: a large job that has not started then waited for all."""

LIVE = {"RUNNING", "PENDING", "COMPLETING"}
LOWER = 1_000_000
"""A nice value."""

SCRIPT, ENVIRONMENT = "#!/bin/sh\nexec sleep 600\n", ("PATH=/usr/bin:/bin",)


@dataclass(slots=True)
class Round:
    """One large job among small ones. `refused` counts refused allocations by their number."""

    client: SlurmClient
    small: str
    large_id: int = 0
    started: float | None = None
    placed: int = 0
    refused: Counter[int] = field(default_factory=Counter)
    ours: set[int] = field(default_factory=set)

    async def submit(self) -> None:
        """Queue a small job."""
        job = JobDescription(**_wishes("small", self.small, SMALL_CPUS, 1), script=SCRIPT, environment=ENVIRONMENT)
        self._made((await self.client.submit(job)).job_id)

    async def allocate(self) -> None:
        """Have it at once; queue it where that is refused."""
        try:
            job = JobDescription(**_wishes("small", self.small, SMALL_CPUS, 1))
            self._made((await self.client.allocate(job)).job_id)
        except (CapacityError, RefusedError) as error:
            self.refused[error.slurm_errno or 0] += 1
            await self.submit()

    def _made(self, job_id: int) -> None:
        self.ours.add(job_id)

    async def watch(self) -> None:
        """Look at all states; end each small job in its time, see the large one start."""
        ends: dict[int, float] = {}
        while True:
            states = await self.client.job_states()
            now = time.perf_counter()
            for job in self.ours:
                if "RUNNING" in states.get(job, ()) and job not in ends:
                    ends[job] = now + LASTS
                    self.placed += 1
            due = [job for job, end in ends.items() if end <= now]
            if due:
                await self.client.cancel(due)
                ends |= dict.fromkeys(due, float("inf"))
            if self.started is None and "RUNNING" in states.get(self.large_id, ()):
                self.started = now
            await asyncio.sleep(0.05)


Arm = Callable[[Round], Awaitable[None]]
ARMS: dict[str, tuple[str, int, Arm]] = {
    "submit": ("small", 0, Round.submit),
    "allocate": ("small", 0, Round.allocate),
    "allocate, one partition for both": ("large", 0, Round.allocate),
    "submit, the large job has the lower priority": ("small", LOWER, Round.submit),
    "allocate, the large job has the lower priority": ("small", LOWER, Round.allocate),
}


def _wishes(name: str, partition: str, cpus: int, minutes: int) -> dict[str, Any]:
    return {
        "name": name,
        "partition": partition,
        "cpus_per_task": cpus,
        "tasks": 1,
        "memory_per_node_mb": 100,
        "time_limit_minutes": minutes,
        "current_working_directory": "/tmp",
    }


async def one_round(client: SlurmClient, partition: str, nice: int, arm: Arm) -> dict[str, Any]:
    """Seconds for which the large job waited, and what became of the small ones."""
    now = Round(client, partition)
    requests: set[asyncio.Task[None]] = set()
    watch = asyncio.create_task(now.watch())
    began, queued = time.perf_counter(), 0.0
    try:
        while not queued or (now.started is None and time.perf_counter() - queued < LONGEST):
            if not queued and time.perf_counter() - began >= WARM:
                wishes = _wishes("large", "large", CPUS, 10) | {"tasks": 2, "nodes": "2", "nice": nice}
                large = JobDescription(**wishes, script=SCRIPT, environment=ENVIRONMENT)
                queued = time.perf_counter()
                now.large_id = (await client.submit(large)).job_id
            requests.add(asyncio.create_task(_as_coroutine(arm, now)))
            await asyncio.sleep(EVERY)
            if watch.done():
                await watch
        waited = (now.started - queued) if now.started is not None else LONGEST
    finally:
        await asyncio.gather(*requests)
        watch.cancel()
        await asyncio.wait([watch])
        await _clear(client, [*now.ours, now.large_id])
    return {
        "waited_s": round(waited, 2),
        "started": now.started is not None,
        "small_started": now.placed,
        "refused": {str(number): count for number, count in now.refused.items()},
    }


async def _as_coroutine(arm: Arm, now: Round) -> None:
    await arm(now)


async def _clear(client: SlurmClient, jobs: list[int]) -> None:
    await client.cancel([job for job in jobs if job])
    while any(words & LIVE for words in (await client.job_states()).values()):  # noqa: ASYNC110 - Slurm tells nobody
        await asyncio.sleep(0.2)


def summary(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Medians, and each way to allocate beside the submissions that it is to be compared with."""
    waits = {name: [one["waited_s"] for one in results] for name, results in found.items()}
    medians = {name: statistics.median(values) for name, values in waits.items()}
    floors = {name: name.replace("allocate", "submit").replace(", one partition for both", "") for name in waits}
    return {
        "median_wait_s": medians,
        "spread_s": {name: [min(values), max(values)] for name, values in waits.items()},
        "to_submit": {name: round(medians[name] / medians[floor], 2) for name, floor in floors.items()},
    }


async def measure(slurm: Slurm, rounds: int) -> dict[str, object]:
    """All arms in turn, so many rounds."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ARMS}
    async with SlurmClient([slurm.rest_url], StaticToken(slurm.token("root"))) as client:
        await client.negotiate()
        for number in range(rounds):
            for name, (partition, nice, arm) in ARMS.items():
                result = await one_round(client, partition, nice, arm)
                found[name].append(result)
                print(f"Slurm {slurm.version} round {number + 1}, {name}: {result}", flush=True)
    return {"version": slurm.version, **summary(found), "rounds": found}


def main() -> None:
    """Measure on each release, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("releases", nargs="*", default=["24.11", "26.05"])
    options = parser.parse_args()
    releases: dict[str, object] = {}
    found = {
        "what": f"seconds from the submission of a job of two nodes of {CPUS} CPUs to its start, while jobs of "
        f"{SMALL_CPUS} CPUs and {LASTS:g} s come to one of them every {EVERY:g} s, for {LONGEST:g} s more at most",
        "command": "python -m bench.overtaking",
        "releases": releases,
    }
    for release in options.releases:
        partitions = (Partition("small", nodes="node-1", default=True), Partition("large"))
        nodes = [SlurmNode(name, cpus=CPUS) for name in ("node-1", "node-2")]
        config = {"PriorityType": "priority/basic"}
        with Slurm(release=release, nodes=nodes, partitions=partitions, config=config) as slurm:
            releases[release] = asyncio.run(measure(slurm, options.rounds))
    write("overtaking", found)


if __name__ == "__main__":
    main()
