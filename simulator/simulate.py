"""One run: a cluster, work, trouble, then peace; and whether the promises held."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import structlog

from simulator.calm import Calm
from simulator.cluster import SimCluster, a_cluster, working
from simulator.diary import Diary, job_subject, node_subject, pod_subject
from simulator.keeper import Keeper
from simulator.kube.refusals import Refused
from simulator.options import DAY_S, FaultClass, Options
from simulator.pair import Pair
from simulator.people.foreigners import CONFIG as FOREIGN_PODS
from simulator.people.foreigners import Foreigners
from simulator.people.machines import Machines
from simulator.people.neighbours import Neighbours
from simulator.people.operators import Operators
from simulator.people.policies import Policies, has_policies
from simulator.people.shapes import allocatable
from simulator.people.upkeep import Upkeep
from simulator.people.workload import Workload
from simulator.promises.guests import GuestJudge
from simulator.promises.judge import Judge
from simulator.promises.nodes import NodeJudge
from simulator.promises.promise import Broken, Promise
from simulator.site import Site, a_site, has_machines, tolerating
from simulator.slurm.records import SimNode, SimPartition
from simulator.slurm.release import SimRelease
from simulator.trouble.epilogs import Epilogs
from simulator.trouble.mishaps import Mishaps
from simulator.virtual_time import run_virtual

PACES = """
limits: {refreshRate: 0.5, pollInterval: 2s, pollIntervalMost: 3s, nodesInterval: 15s}
"""
"""Slower than the defaults, so that a virtual hour costs seconds."""

HEARTBEAT_S = 60.0
"""kubelet's `nodeStatusReportFrequency`; its own default, five minutes, would outlast most runs."""

GUESTS = SimPartition("guests", priority_tier=1, preempt_mode="")
"""Of the jobs of Pods that Slurm did not place: they preempt nobody, and nobody preempts them."""

REST_WITHIN_S = 2400.0
"""Virtual seconds within which a healed cluster has to come to rest."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run. `diary` is everything that happened, `digest` stands for it."""

    options: Options
    broken: tuple[Broken, ...]
    summary: str
    diary: str
    digest: str
    injected: Counter[str]
    checked: Counter[Promise]
    windows: Counter[str]
    pods: int

    @property
    def told(self) -> str:
        """The story of each broken promise, and how to see it again."""
        lines: list[str] = []
        for one in self.broken:
            lines += [f"BROKEN at {one.at:.3f} s, {', '.join(one.subjects)}: {one.promise}: {one.text}", *one.story, ""]
        return "\n".join([*lines, f"again: {self.options.command}"]) + "\n" if lines else ""


@dataclass(frozen=True, slots=True)
class _Stage:
    """Everybody who acts in a run."""

    cluster: SimCluster
    diary: Diary
    workload: Workload
    neighbours: Neighbours
    operators: Operators
    mishaps: Mishaps
    keeper: Keeper | Pair
    judge: Judge
    epilogs: Epilogs
    foreigners: Foreigners
    machines: list[Machines]
    upkeep: Upkeep
    policies: list[Policies]


def simulate(options: Options) -> Outcome:
    """Run one seed to its end, on virtual time."""
    with _silence():
        return run_virtual(_run(options))


@contextmanager
def _silence() -> Iterator[None]:
    """No log line of the extender: its story is told where a promise is broken."""
    before = structlog.get_config()
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL), processors=[_drop])
    try:
        yield
    finally:
        structlog.configure(**before)
        logging.disable(logging.NOTSET)


def _drop(_logger: object, _method: str, _event: object) -> NoReturn:
    raise structlog.DropEvent


async def _run(options: Options) -> Outcome:
    duration = options.days * DAY_S
    async with _a_stage(options, duration) as stage:
        await asyncio.sleep(duration)
        await _come_to_rest(stage)
        return _outcome(options, stage)


@asynccontextmanager
async def _a_stage(options: Options, duration: float) -> AsyncIterator[_Stage]:
    seed = random.Random(options.seed)  # noqa: S311 - everything is to come again

    def draw() -> random.Random:
        return random.Random(seed.getrandbits(64))  # noqa: S311

    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        rng = random.Random(f"the site of seed {options.seed}")  # noqa: S311
        epilogs = Epilogs(rng)
        fenced = FaultClass.EPILOGS in options.faults and rng.random() < 0.5
        site = _site(rng, options)
        shapes = random.Random(f"the shapes of seed {options.seed}")  # noqa: S311
        tight = allocatable(shapes, site.nodes)
        site_key = (files := Path(stack.enter_context(TemporaryDirectory()))) / "site.key"
        site_key.write_text("a key of the site", encoding="utf-8")
        cluster = await enter(
            a_cluster(
                SimCluster,
                nodes=site.nodes,
                partitions=[*site.partitions, *([GUESTS] if options.foreign else [])],
                release=options.slurm,
                slurm_config=site.config,
                fence_key=site_key.read_text(encoding="utf-8") if fenced else "",
                more=epilogs.beside,
                naming=options.naming,
                allocatable=_as_large(site.nodes, tight) if options.foreign else tight,
            )
        )
        cluster.kubelets.heartbeat_s = HEARTBEAT_S
        cluster.kubelets.start_s = site.container_start_s
        _configure(cluster, site, site_key if fenced else None, foreign=bool(options.foreign))
        cluster.rng = draw
        links = draw()
        cluster.network.latency = lambda: links.choice([0.0, 0.001, 0.002, 0.02])
        diary, calm = Diary(), Calm()
        operators = Operators(cluster, draw(), diary, calm, busy := max(60.0, duration / 20))
        judge = Judge(cluster, diary, calm, operators)
        workload = Workload(cluster, draw(), diary, options.pods, duration, site.modes, shapes if tight else None)
        neighbours = Neighbours(cluster, draw(), diary, max(30.0, duration / 30))
        foreigners = Foreigners(cluster, options.seed, diary, options.foreign, duration)
        pace = max(90.0, duration / 8)
        mishaps = Mishaps(cluster, draw(), diary, calm, classes=options.faults, every_s=pace)
        mishaps.restored = operators.look_again
        lives = max(120.0, duration / 6) if {FaultClass.CRASHES, FaultClass.SCOPE} & options.faults else 0.0
        scopes = FaultClass.SCOPE in options.faults
        keeper: Keeper | Pair = Keeper(cluster, draw(), diary, calm, judge, lives, scopes)
        if FaultClass.REPLICAS in options.faults:
            keeper = Pair(cluster, draw(), diary, calm, judge=judge, every_s=max(60.0, duration / 6), scopes=scopes)
        if FaultClass.EPILOGS in options.faults:
            epilogs.operators = operators
        machines = _machines(options.seed, cluster, judge, busy) if site.machines else []
        upkeep = _upkeep(options.seed, cluster, judge, busy)
        policies = _policies(options.seed, cluster, judge, files, busy)
        judge.begin()
        NodeJudge(cluster, judge).begin()
        GuestJudge(cluster, judge).begin()
        await enter(working(keeper.run()))
        await cluster.until(lambda: hasattr(cluster, "extender"), "a first life")
        works = [judge.run(), workload.run(), workload.people(), neighbours.run(), mishaps.run()]
        if FaultClass.OPERATORS in options.faults:
            works += [operators.run(), upkeep.run(), *(one.run() for one in machines)]
        if {FaultClass.AMNESIA, FaultClass.RESTORES} & options.faults:
            works.append(operators.watch_brake())
        for work in (*works, foreigners.run(), *(one.run() for one in policies)):
            await enter(working(work))
        yield _Stage(
            cluster,
            diary,
            workload,
            neighbours,
            operators,
            mishaps,
            keeper,
            judge,
            epilogs,
            foreigners,
            machines,
            upkeep,
            policies,
        )


def _site(rng: random.Random, options: Options) -> Site:
    release = SimRelease(options.slurm)
    return a_site(rng, options.nodes, release, machines=has_machines(options.seed, release))


def _machines(seed: int, cluster: SimCluster, judge: Judge, every_s: float) -> list[Machines]:
    rng = random.Random(f"what becomes of the machines of seed {seed}")  # noqa: S311
    machines = Machines(cluster, rng, judge, every_s)
    machines.begin()
    return [machines]


def _upkeep(seed: int, cluster: SimCluster, judge: Judge, every_s: float) -> Upkeep:
    upkeep = Upkeep(cluster, random.Random(f"the upkeep of seed {seed}"), judge, every_s)  # noqa: S311
    upkeep.begin()
    return upkeep


def _policies(seed: int, cluster: SimCluster, judge: Judge, files: Path, every_s: float) -> list[Policies]:
    if not has_policies(seed):
        return []
    rng = random.Random(f"what becomes of the policies of seed {seed}")  # noqa: S311
    policies = Policies(cluster, rng, judge, files / "policy.yaml", every_s)
    policies.begin()
    cluster.config = cluster.config.replace("jobs: {", f"jobs: {{{policies.told}")
    return [policies]


async def _come_to_rest(stage: _Stage) -> None:
    """Heal everything; first every Pod has to get its turn, then all has to end."""
    cluster, judge = stage.cluster, stage.judge
    stage.diary.add("everything is healed")
    stage.keeper.quiet = True
    stage.mishaps.heal()
    stage.upkeep.heal()
    stage.operators.heal()
    stage.neighbours.stop()
    stage.epilogs.stopped = True
    stage.workload.stop()
    stage.foreigners.stop()
    for one in stage.machines:
        one.heal()
    for each in stage.policies:
        each.heal()
    loop = asyncio.get_running_loop()
    end = loop.time() + REST_WITHIN_S
    while loop.time() < end and any(judge.waits_in_slurm(pod) for pod in cluster.pods()):
        await asyncio.sleep(60.0)
        for name in cluster.bound_pods()[:4]:  # Room for those that wait.
            _delete(stage, name)
    for pod in cluster.pods():
        if judge.waits_in_slurm(pod):
            judge.break_(Promise.REST, "it never got its turn", pod_subject(pod["metadata"]["name"]))
        _delete(stage, pod["metadata"]["name"])
    while loop.time() < end + REST_WITHIN_S and _restless(stage):
        await asyncio.sleep(10.0)
        stage.foreigners.stop()
        for pod in cluster.pods():  # A deletion may have been undone by the last restore of etcd.
            _delete(stage, pod["metadata"]["name"])
    for subject in _restless(stage):
        judge.break_(Promise.REST, "it is still there when all has ended", subject)
    judge.look()


def _configure(cluster: SimCluster, site: Site, site_key: Path | None, *, foreign: bool) -> None:
    config = site.told(cluster.config.replace("limits: {refreshRate: 2}\n", PACES))
    if site_key is not None:
        config = config.replace("key: secret", f"key: secret, siteKeyFile: {site_key}")
    if site.tainted:
        cluster.kube.mutate = tolerating
    cluster.config = config + (FOREIGN_PODS if foreign else "")


def _as_large(nodes: Sequence[SimNode], tight: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Nodes of one size on both sides, where it is not drawn, so that Pods of either scheduler fill them."""
    return {
        node.name: {"cpu": str(node.cpus), "memory": f"{node.memory_mb}Mi", **tight.get(node.name, {})}
        for node in nodes
    }


def _restless(stage: _Stage) -> list[str]:
    cluster = stage.cluster
    left = [pod_subject(pod["metadata"]["name"]) for pod in cluster.pods()]
    left += [job_subject(job.job_id) for job in cluster.live_jobs()]
    left += [node_subject(node) for one in stage.machines for node in one.wrong()]
    return left + [node_subject(node) for node in cluster.drained()]


def _delete(stage: _Stage, name: str) -> None:
    pod = stage.cluster.kube.pod(name)
    if pod is None or "deletionTimestamp" in pod["metadata"]:
        return
    stage.diary.add("deleted at the end", pod_subject(name))
    try:
        stage.cluster.kube.delete_pod(name)
    except Refused:
        return


def _outcome(options: Options, stage: _Stage) -> Outcome:
    judge, keeper = stage.judge, stage.keeper
    injected = stage.mishaps.injected + Counter({f"operators: {k}": v for k, v in stage.operators.done.items()})
    injected += Counter({f"operators: {what}": count for what, count in stage.upkeep.done.items()})
    for each in stage.policies:
        injected += Counter({f"policies: {what}": count for what, count in each.done.items()})
    for one in stage.machines:
        injected += Counter({f"machines: {what}": count for what, count in one.done.items()})
    if isinstance(keeper, Pair):
        injected += keeper.injected
    else:
        injected += Counter({"crashes: killed": keeper.killed, "crashes: stopped": keeper.stopped})
    waits = sorted(judge.waits)
    lines = [
        f"seed {options.seed}: {options.command}",
        f"pods: {stage.workload.made} made, {len(waits)} bound; ended: {_counts(judge.fates)}",
        f"waits: p50 {_at(waits, 0.5):.1f} s, p99 {_at(waits, 0.99):.1f} s",
        f"jobs: {_counts(judge.states)}; preempted {judge.preempted}",
        f"faults: {_counts(injected)}",
        f"lives: {keeper.lives}",
        f"starts beside a Pod that no fence can prevent: {_counts(judge.windows)}",
        f"promises: {judge.checked.total()} checks, {len(judge.broken)} broken",
        *(f"  {promise}: {judge.checked[promise]}" for promise in Promise if judge.checked[promise]),
        f"virtual time: {asyncio.get_running_loop().time():.3f} s; story: sha256 {stage.diary.digest()}",
    ]
    return Outcome(
        options,
        tuple(judge.broken),
        "\n".join(lines) + "\n",
        stage.diary.text(),
        stage.diary.digest(),
        injected,
        judge.checked,
        judge.windows,
        stage.workload.made,
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
