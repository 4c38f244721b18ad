"""Measure how much a namespace that floods the extender delays the Pods of another namespace.

Quiet and flooded phases alternate, so both meet the same machine. In every phase the innocent namespace creates Pods
at the same pace. Pods of a kube-scheduler without an extender and allocations that skip Kubernetes run beside them:
they say which part of a delay belongs to Kubernetes, to Slurm and to the machine.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.figures import quantile
from bench.real.cpu import spent
from bench.real.fleet import ALONE, EXTERNAL, JOB_NAME, MODE, NARROW, OURS, PARTITION
from bench.real.jobs import LATE_S, a_job, settled, together
from bench.real.load import CREATING, Load, load
from extender.kube.errors import ApiError
from lab.clock import now
from lab.instants import slurm_instants
from lab.site import Site
from slurmclient import NodeUpdate, SlurmClient

Json = dict[str, Any]
RATIO = 2.0
"""Goal: the median of the rounds' p95 flooded / p95 quiet is at most this (`goal_met`).

The command ends well by a weaker criterion (`met`): the ratio divided by the one of Pods that a kube-scheduler places
without an extender is at most this, and no Slurm node is drained outside the flood. The time that an API server and a
kube-scheduler on the same two cores take is in both ratios.
"""

EVERY_S = 0.15
"""Between two Pods of the innocent namespace."""

CONTROL_EVERY = 4
"""One Pod without an extender and one allocation without a Pod for so many Pods of the innocent namespace."""

FLOOD = 240
"""Pods that the adversary creates at once."""

KEYS = 10_000
HUGE_EVERY = 20
"""One of so many Pods of the adversary has `KEYS` annotations."""

FLAPPERS, FLAPS_PER_S, CHURN_PER_S = 5, 10, 10
"""Attackers that change annotations; changed annotations, and Pods created and deleted, by each attacker a second."""

INNOCENT = {MODE: "external", PARTITION: EXTERNAL}
HOSTILE = {MODE: "external", PARTITION: NARROW}
"""The adversary has nodes of its own: Slurm always has room for the innocent namespace."""

HUGE = {f"a{number}.example/k": "v" for number in range(KEYS)}


@dataclass(slots=True)
class Phase:
    """Seconds of each Pod and allocation of one phase."""

    placed: list[float] = field(default_factory=list)
    """Innocent: creation to Binding."""

    allocated: list[float] = field(default_factory=list)
    """Innocent: creation until the Pod names its job: the extender's queues, the API server and slurmctld."""

    without_extender: list[float] = field(default_factory=list)
    """Creation to Binding by a kube-scheduler without an extender."""

    slurm_alone: list[float] = field(default_factory=list)
    """A request for an allocation, without Kubernetes."""

    def p95(self) -> Json:
        """The p95 of each, in seconds."""
        return {name: quantile(getattr(self, name), 0.95) for name in self.__slots__}


@dataclass(slots=True)
class Attack:
    """What the adversary did."""

    created: int = 0
    flapped: int = 0
    deleted: int = 0
    forced: int = 0
    refused: int = 0


async def measure_adversary(
    innocent: Load, slurm: SlurmClient, site: Site, *, parts: Mapping[str, list[int]], rounds: int, count: int
) -> Json:
    """Compare p95 of creation to Binding with and without a flood; check which Slurm nodes are drained."""
    attack, cpu = Attack(), []
    quiet: list[Phase] = []
    flooded: list[Phase] = []
    drained_before = len(_drains(site))
    async with load(str(site.kube.kubeconfig), site.namespace("bench-flood")) as hostile:
        for _ in range(rounds):
            before = spent(parts)
            quiet.append(await _phase(innocent, slurm, count))
            cpu.append({"quiet": spent(parts).since(before)})
            await _at_rest(slurm, innocent)
            before = spent(parts)
            async with _flood(hostile, attack):
                flooded.append(await _phase(innocent, slurm, count))
            cpu[-1]["flooded"] = spent(parts).since(before)
            await _at_rest(slurm, innocent, hostile)
            await _undrain(slurm, hostile.nodes)
        drained = {node for _, node in _drains(site)[drained_before:]}
        return _result(quiet, flooded, drained, hostile.nodes) | {
            "pods": count,
            "attack": {name: getattr(attack, name) for name in attack.__slots__},
            "cpu": cpu,
        }


def _result(quiet: list[Phase], flooded: list[Phase], drained: set[str], hostile: set[str]) -> Json:
    before, after = [one.p95() for one in quiet], [one.p95() for one in flooded]
    ratios = {name: [flood[name] / calm[name] for calm, flood in zip(before, after, strict=True)] for name in before[0]}
    ratio, elsewhere = statistics.median(ratios["placed"]), sorted(drained - hostile)
    each = [ours / alone for ours, alone in zip(ratios["placed"], ratios["without_extender"], strict=True)]
    beside = statistics.median(each)
    return {
        "verdict": verdict(ratio, beside, len(elsewhere)),
        "quiet_p95_s": before,
        "flooded_p95_s": after,
        "ratios": ratios,
        "ratio": ratio,
        "ratios_beside_kube_scheduler_alone": each,
        "ratio_beside_kube_scheduler_alone": beside,
        "median_ratio": {name: statistics.median(found) for name, found in ratios.items()},
        "drained": sorted(drained),
        "drained_elsewhere": elsewhere,
        "goal_met": ratio <= RATIO,
        "met": beside <= RATIO and not elsewhere,
    }


def verdict(ratio: float, beside: float, drained_elsewhere: int) -> str:
    """Say whether the goal is met, and by which criterion the command ends well."""
    goal = "met" if ratio <= RATIO else "NOT met"
    ends_well = "met" if beside <= RATIO and not drained_elsewhere else "NOT met"
    return (
        f"Goal (p95 at most {RATIO:g} times quiet): {goal}, {ratio:.2f} times. "
        f"Criterion of the exit status (that ratio at most {RATIO:g} times the one without the extender, no node "
        f"drained elsewhere): {ends_well}, {beside:.2f} times, {drained_elsewhere} nodes."
    )


async def _phase(innocent: Load, slurm: SlurmClient, count: int) -> Phase:
    """Create Pods at a steady pace, whether or not those before them are bound."""
    phase = Phase()
    async with asyncio.timeout(LATE_S), asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(_place(innocent, phase))
            if number % CONTROL_EVERY == 0:
                group.create_task(_place_without_extender(innocent, phase))
                group.create_task(_allocate(slurm, phase))
            await asyncio.sleep(EVERY_S)
    return phase


async def _place(innocent: Load, phase: Phase) -> None:
    life = innocent.lives[await innocent.create(OURS, INNOCENT, gated=True)]
    phase.placed.append(await life.bound - life.created)
    phase.allocated.append(await life.named - life.created)


async def _place_without_extender(innocent: Load, phase: Phase) -> None:
    life = innocent.lives[await innocent.create(ALONE, {}, gated=False)]
    phase.without_extender.append(await life.bound - life.created)


async def _allocate(slurm: SlurmClient, phase: Phase) -> None:
    began = now()
    made = await slurm.allocate(a_job("floor", EXTERNAL, external=True, immediate=True))
    phase.slurm_alone.append(now() - began)
    await slurm.cancel([made.job_id])


@asynccontextmanager
async def _flood(hostile: Load, attack: Attack) -> AsyncIterator[None]:
    """Attack as long as it is open."""
    async with asyncio.TaskGroup() as group:
        attackers = [
            group.create_task(one)
            for one in (
                _burst(hostile, attack),
                *(_flap(hostile, attack) for _ in range(FLAPPERS)),
                _create(hostile, attack),
                _delete(hostile, attack),
            )
        ]
        try:
            yield
        finally:
            for one in attackers:
                one.cancel()


async def _burst(hostile: Load, attack: Attack) -> None:
    """Create many Pods at once, some of them as large as the API server allows."""
    await together([partial(_one, hostile, attack, huge=number % HUGE_EVERY == 0) for number in range(FLOOD)], CREATING)


async def _one(hostile: Load, attack: Attack, *, huge: bool) -> None:
    try:
        await hostile.create(OURS, HOSTILE | (HUGE if huge else {}), gated=True)
        attack.created += 1
    except ApiError:
        attack.refused += 1


async def _create(hostile: Load, attack: Attack) -> None:
    while True:
        await _one(hostile, attack, huge=random.randrange(HUGE_EVERY) == 0)
        await asyncio.sleep(1 / CHURN_PER_S)


async def _flap(hostile: Load, attack: Attack) -> None:
    """Change the name of the job of a Pod again and again: each change is translated, and may update a job."""
    while True:
        if living := _living(hostile):
            with suppress(ApiError):  # deleted a moment ago
                await hostile.annotate(random.choice(living), {JOB_NAME: f"flap-{attack.flapped}"})
                attack.flapped += 1
        await asyncio.sleep(1 / FLAPS_PER_S)


async def _delete(hostile: Load, attack: Attack) -> None:
    """Delete with grace 0 a placed Pod and with its grace another one, in turn."""
    while True:
        if placed := [name for name in _living(hostile) if hostile.lives[name].bound.done()]:
            with suppress(ApiError):
                await hostile.delete(random.choice(placed), grace_s=0)
                attack.forced += 1
        if living := _living(hostile):
            with suppress(ApiError):
                await hostile.delete(random.choice(living))
                attack.deleted += 1
        await asyncio.sleep(2 / CHURN_PER_S)


def _living(hostile: Load) -> list[str]:
    return [name for name, life in hostile.lives.items() if life.seen and not life.ending.done()]


async def _at_rest(slurm: SlurmClient, *loads: Load) -> None:
    """Delete all Pods and wait until Slurm has no job of them."""
    await asyncio.wait_for(asyncio.gather(*(one.clear() for one in loads)), LATE_S)
    await settled(slurm)


async def _undrain(slurm: SlurmClient, nodes: Iterable[str]) -> None:
    """Let the adversary have its nodes again, as an administrator does."""
    for node in nodes:
        if (await slurm.node(node)).drained:
            await slurm.update_node(node, NodeUpdate(state=("UNDRAIN",)))


def _drains(site: Site) -> list[tuple[float, str]]:
    return slurm_instants(site.slurm.daemon("slurmctld").log).drained
