"""Measure how much a namespace that floods the extender delays the Pods of another namespace.

Quiet and flooded phases alternate, so both meet the same machine. In every phase the innocent namespace creates Pods
at the same pace. Pods of a kube-scheduler without an extender and allocations that skip Kubernetes run beside them:
they say which part of a delay belongs to Kubernetes, to Slurm and to the machine. A third phase of each round floods
that kube-scheduler alone, with Pods that the extender ignores.

Both namespaces belong to tenants. An administrator is exempt from priority and fairness of the API server: its flood
is none that a site can meet, and its own Pods would overtake those of every real user. So the innocent Pods are those
of a user too. The extender and both kube-schedulers use the ServiceAccounts and the FlowSchema of the manifests. The
flood runs in a process of its own, so that it takes no time of the loop that reads the clock.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.figures import quantile
from bench.real.cpu import spent
from bench.real.fleet import ALONE, AUTHOR, EXTERNAL, FLOODER, MODE, OURS, PARTITION
from bench.real.flood_process import FloodProcess, flood_process
from bench.real.jobs import LATE_S, a_job, settled
from bench.real.load import Life, Load, load
from bench.real.served import served
from lab.clock import now
from lab.instants import slurm_instants
from lab.site import Site
from lab.tenants import admit_tenant
from slurmclient import NodeUpdate, SlurmClient

Json = dict[str, Any]
RATIO = 2.0
"""Goal: the median of the rounds' p95 flooded / p95 quiet is at most this (`goal_met`).

The command ends well (`met`) if no Slurm node is drained outside the flood, and either the goal is met, or the ratio
divided by the one of Pods that a kube-scheduler places without an extender is at most this: the API server and the
kube-scheduler then delay all Pods. The page says in either case whether the goal itself is met.
"""

EVERY_S = 0.15
"""Between two Pods of the innocent namespace."""

CONTROL_EVERY = 4
"""One Pod without an extender and one allocation without a Pod for so many Pods of the innocent namespace."""

WARM_UP = 20
"""Pods before the first round, which count for nothing: the first ones of a new site take 20 times as long."""

ANSWERED_S = 60.0
"""A request of the innocent namespace that takes longer has failed; until then it is measured."""

INNOCENT = {MODE: "external", PARTITION: EXTERNAL}

STAGES = ("shown", "named", "bound")
"""Stages of an innocent Pod, one after the other; their sum is `placed`."""


@dataclass(slots=True)
class Phase:
    """Seconds of each Pod and allocation of one phase."""

    placed: list[float] = field(default_factory=list)
    """Innocent: creation to Binding."""

    allocated: list[float] = field(default_factory=list)
    """Innocent: creation until the Pod names its job: the extender's queues, the API server and slurmctld."""

    accepted: list[float] = field(default_factory=list)
    """Innocent: the request that creates it."""

    shown: list[float] = field(default_factory=list)
    """Innocent, first stage: creation until a watch shows the Pod: the API server."""

    named: list[float] = field(default_factory=list)
    """Innocent, second stage: from then on until it names its job: the extender, slurmctld, the patch."""

    bound: list[float] = field(default_factory=list)
    """Innocent, third stage: from then on to Binding: kube-scheduler's queue, `/filter`, `/bind`, the API server."""

    without_extender: list[float] = field(default_factory=list)
    """Creation to Binding by a kube-scheduler without an extender."""

    without_extender_shown: list[float] = field(default_factory=list)
    """The part of it until a watch shows the Pod."""

    slurm_alone: list[float] = field(default_factory=list)
    """A request for an allocation, without Kubernetes."""

    def add(self, created: float, accepted: float, shown: float, named: float, bound: float) -> None:
        """Add the instants of one innocent Pod."""
        self.placed.append(bound - created)
        self.allocated.append(named - created)
        self.accepted.append(accepted - created)
        self.shown.append(shown - created)
        self.named.append(named - shown)
        self.bound.append(bound - named)

    def p95(self) -> Json:
        """Return the p95 of each, in seconds."""
        return {name: quantile(found, 0.95) for name in self.__slots__ if (found := getattr(self, name))}


@dataclass(slots=True)
class Rounds:
    """Everything that is measured, a list entry for each round."""

    quiet: list[Phase] = field(default_factory=list)
    flooded: list[Phase] = field(default_factory=list)
    beside: list[Phase] = field(default_factory=list)
    """While Pods of the kube-scheduler without an extender flood it."""

    attacks: dict[str, list[Json]] = field(default_factory=lambda: {"with_extender": [], "without_extender": []})
    cpu: list[Json] = field(default_factory=list)
    served: list[Json] = field(default_factory=list)
    drained: set[str] = field(default_factory=set)
    hostile: set[str] = field(default_factory=set)
    """Nodes that a Pod of the flood was bound to."""


@dataclass(frozen=True, slots=True)
class Arena:
    """Both tenants and the site between them."""

    innocent: Load
    flood: FloodProcess
    slurm: SlurmClient
    site: Site
    parts: Mapping[str, list[int]]


async def measure_adversary(
    slurm: SlurmClient, site: Site, *, parts: Mapping[str, list[int]], rounds: int, count: int
) -> Json:
    """Compare p95 of creation to Binding with and without a flood; check which Slurm nodes are drained."""
    innocent_config = admit_tenant(site.kube, AUTHOR, "bench-innocent")
    hostile_config = admit_tenant(site.kube, FLOODER, "bench-flood")
    found, drained_before = Rounds(), len(_drains(site))
    async with (
        load(innocent_config, "bench-innocent") as innocent,
        flood_process(hostile_config, "bench-flood") as flood,
    ):
        innocent.patient, innocent.request_s = True, ANSWERED_S
        arena = Arena(innocent, flood, slurm, site, {**parts, "flood": [flood.pid]})
        await _phase(arena, min(count, WARM_UP))
        await _at_rest(arena)
        for _ in range(rounds):
            await _round(arena, found, count)
        found.drained = {node for _, node in _drains(site)[drained_before:]}
        return result(found) | {"pods": count, "innocent_throttled": innocent.throttled}


async def _round(arena: Arena, found: Rounds, count: int) -> None:
    found.cpu.append({})
    found.served.append({})
    async with _watched(arena, found, "quiet"):
        found.quiet.append(await _phase(arena, count))
    await _at_rest(arena)
    async with _watched(arena, found, "flooded"), _flooding(arena.flood, OURS, found.attacks["with_extender"]):
        found.flooded.append(await _phase(arena, count))
    await _recover(arena, found)
    async with _watched(arena, found, "beside"), _flooding(arena.flood, ALONE, found.attacks["without_extender"]):
        found.beside.append(await _phase(arena, count, only_alone=True))
    await _recover(arena, found)


def result(found: Rounds) -> Json:
    """Return every figure of so many rounds."""
    before, after = [one.p95() for one in found.quiet], [one.p95() for one in found.flooded]
    ratios = {name: [flood[name] / calm[name] for calm, flood in zip(before, after, strict=True)] for name in before[0]}
    ratio, elsewhere = statistics.median(ratios["placed"]), sorted(found.drained - found.hostile)
    each = [ours / alone for ours, alone in zip(ratios["placed"], ratios["without_extender"], strict=True)]
    beside = statistics.median(each)
    beside_p95 = [one.p95() for one in found.beside]
    kube_scheduler = [
        flood["without_extender"] / calm["without_extender"] for calm, flood in zip(before, beside_p95, strict=True)
    ]
    return {
        "verdict": verdict(ratio, beside, len(elsewhere)),
        "quiet_p95_s": before,
        "flooded_p95_s": after,
        "flooded_without_extender_p95_s": beside_p95,
        "ratios": ratios,
        "ratio": ratio,
        "ratios_beside_kube_scheduler_alone": each,
        "ratio_beside_kube_scheduler_alone": beside,
        "ratios_of_kube_scheduler_flooded_alone": kube_scheduler,
        "ratio_of_kube_scheduler_flooded_alone": statistics.median(kube_scheduler),
        "median_ratio": {name: statistics.median(some) for name, some in ratios.items()},
        "stages": {"quiet": stages(found.quiet), "flooded": stages(found.flooded)},
        "drained": sorted(found.drained),
        "drained_elsewhere": elsewhere,
        "goal_met": ratio <= RATIO,
        "met": ends_well(ratio, beside, len(elsewhere)),
        "attacks": found.attacks,
        "served": found.served,
        "cpu": found.cpu,
    }


def stages(phases: Iterable[Phase]) -> Json:
    """Return p50, p95 and mean of each stage over the Pods of all phases, in seconds; the means add up to `placed`."""
    phases = list(phases)
    told = {}
    for name in (*STAGES, "placed", "accepted"):
        seconds = [value for phase in phases for value in getattr(phase, name)]
        told[name] = {
            "p50": statistics.median(seconds),
            "p95": quantile(seconds, 0.95),
            "mean": statistics.fmean(seconds),
        }
    return told


def ends_well(ratio: float, beside: float, drained_elsewhere: int) -> bool:
    """Return whether the command ends well."""
    return (ratio <= RATIO or beside <= RATIO) and not drained_elsewhere


def verdict(ratio: float, beside: float, drained_elsewhere: int) -> str:
    """Say whether the goal is met, and by which criterion the command ends well."""
    goal = "met" if ratio <= RATIO else "NOT met"
    criterion = "met" if ends_well(ratio, beside, drained_elsewhere) else "NOT met"
    return (
        f"Goal (p95 at most {RATIO:g} times quiet): {goal}, {ratio:.2f} times. "
        f"Criterion of the exit status (the goal, or that ratio at most {RATIO:g} times the one without the extender; "
        f"no node drained elsewhere): {criterion}, {beside:.2f} times, {drained_elsewhere} nodes."
    )


async def _phase(arena: Arena, count: int, *, only_alone: bool = False) -> Phase:
    """Create Pods at a steady pace, whether or not those before them are bound; `only_alone`: without the extender."""
    phase, innocent = Phase(), arena.innocent
    async with asyncio.timeout(LATE_S), asyncio.TaskGroup() as group:
        for number in range(count):
            if only_alone:
                group.create_task(_place_without_extender(innocent, phase))
            else:
                group.create_task(_place(innocent, phase))
                if number % CONTROL_EVERY == 0:
                    group.create_task(_place_without_extender(innocent, phase))
                    group.create_task(_allocate(arena.slurm, phase))
            await asyncio.sleep(EVERY_S)
    return phase


async def _place(innocent: Load, phase: Phase) -> None:
    life = await _created(innocent, OURS)
    phase.add(life.created, life.accepted, await life.shown, await life.named, await life.bound)


async def _place_without_extender(innocent: Load, phase: Phase) -> None:
    life = await _created(innocent, ALONE)
    phase.without_extender_shown.append(await life.shown - life.created)
    phase.without_extender.append(await life.bound - life.created)


async def _created(innocent: Load, scheduler: str) -> Life:
    ours = scheduler == OURS
    return innocent.lives[await innocent.create(scheduler, INNOCENT if ours else {}, gated=ours)]


async def _allocate(slurm: SlurmClient, phase: Phase) -> None:
    began = now()
    made = await slurm.allocate(a_job("floor", EXTERNAL, external=True, immediate=True))
    phase.slurm_alone.append(now() - began)
    await slurm.cancel([made.job_id])


@asynccontextmanager
async def _flooding(flood: FloodProcess, scheduler: str, told: list[Json]) -> AsyncIterator[None]:
    """Attack as long as it is open."""
    await flood.attack(scheduler)
    try:
        yield
    finally:
        told.append(await flood.halt())


@asynccontextmanager
async def _watched(arena: Arena, found: Rounds, name: str) -> AsyncIterator[None]:
    """Record the CPU of each part and the requests that were served as long as it is open."""
    requests, cpu = served(arena.site), spent(arena.parts)
    yield
    found.cpu[-1][name] = spent(arena.parts).since(cpu)
    found.served[-1][name] = served(arena.site).since(requests)


async def _at_rest(arena: Arena) -> set[str]:
    """Delete all Pods and wait until Slurm has no job of them; return the nodes of those of the last flood."""
    async with asyncio.timeout(LATE_S), asyncio.TaskGroup() as group:
        group.create_task(arena.innocent.clear())
        nodes = group.create_task(arena.flood.clear())
    await settled(arena.slurm)
    return nodes.result()


async def _recover(arena: Arena, found: Rounds) -> None:
    """Come to rest after a flood, and resume its nodes."""
    nodes = await _at_rest(arena)
    found.hostile |= nodes
    await _undrain(arena.slurm, nodes)


async def _undrain(slurm: SlurmClient, nodes: Iterable[str]) -> None:
    """Let the adversary have its nodes again, as an administrator does."""
    for node in nodes:
        if (await slurm.node(node)).drained:
            await slurm.update_node(node, NodeUpdate(state=("UNDRAIN",)))


def _drains(site: Site) -> list[tuple[float, str]]:
    return slurm_instants(site.slurm.daemon("slurmctld").log).drained
