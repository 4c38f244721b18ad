"""Run one seed: load and faults, then healing and quiescence; and report violated invariants."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import structlog

from simulator.actors.external_nodes import ExternalNodeChanges
from simulator.actors.foreign_pods import CONFIG as FOREIGN_PODS
from simulator.actors.foreign_pods import ForeignPodScheduler
from simulator.actors.gang_controllers import GangControllers
from simulator.actors.maintenance import MaintenanceOperators
from simulator.actors.native_jobs import NativeJobUsers
from simulator.actors.operators import Operators
from simulator.actors.pod_creator import PodCreator
from simulator.actors.pod_policies import PolicyEditor, has_policies
from simulator.actors.pod_shapes import allocatable
from simulator.cluster import SimCluster, in_background, simulated_cluster
from simulator.event_log import EventLog, job_subject, node_subject, pod_subject
from simulator.faults.epilogs import Epilogs
from simulator.faults.injector import FaultInjector
from simulator.invariants.checker import InvariantChecker
from simulator.invariants.foreign_pods import ForeignPodInvariants
from simulator.invariants.gangs import GangInvariants
from simulator.invariants.invariant import Invariant, Violation
from simulator.invariants.nodes import NodeInvariants
from simulator.kube.status_errors import StatusError
from simulator.options import DAY_S, FaultClass, Options
from simulator.quiescence import QuiescenceTracker
from simulator.replicas.replica_pair import ReplicaPair
from simulator.replicas.supervisor import Supervisor
from simulator.site import SiteProfile, add_tolerations, draw_site, has_external_nodes
from simulator.slurm.records import SimNode, SimPartition
from simulator.slurm.release import SimRelease
from simulator.virtual_time import run_virtual

PACES = """
limits: {refreshRate: 0.5, nodesInterval: 15s}
polling: {minInterval: 2s, maxInterval: 3s}
"""
"""Slower than the defaults, so that a virtual hour costs seconds."""

HEARTBEAT_S = 60.0
"""kubelet's `nodeStatusReportFrequency`; its own default, five minutes, would outlast most runs."""

FOREIGN_PARTITION = SimPartition("foreign", priority_tier=1, preempt_mode="")
"""The partition for jobs of foreign Pods, without preemption."""

SITE_KEY = "a key of the site"

REST_WITHIN_S = 2400.0
"""Virtual seconds within which a healed cluster must become quiet."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run. `event_log` is its text, `digest` its hash."""

    options: Options
    violations: tuple[Violation, ...]
    summary: str
    event_log: str
    digest: str
    injected: Counter[str]
    checked: Counter[Invariant]
    windows: Counter[str]
    pods: int

    @property
    def report(self) -> str:
        """Return the events of each violation, and the command that reproduces it."""
        lines: list[str] = []
        for one in self.violations:
            lines += [
                f"VIOLATED at {one.at:.3f} s, {', '.join(one.subjects)}: {one.invariant}: {one.text}",
                *one.events,
                "",
            ]
        return "\n".join([*lines, f"repeat: {self.options.command}"]) + "\n" if lines else ""


@dataclass(frozen=True, slots=True)
class _Scenario:
    """All parts of a run."""

    cluster: SimCluster
    event_log: EventLog
    workload: PodCreator
    neighbours: NativeJobUsers
    operators: Operators
    injector: FaultInjector
    supervisor: Supervisor | ReplicaPair
    checker: InvariantChecker
    epilogs: Epilogs
    foreigners: ForeignPodScheduler
    machines: list[ExternalNodeChanges]
    upkeep: MaintenanceOperators
    policies: list[PolicyEditor]
    gangs: GangControllers


def simulate(options: Options, watch: Callable[[Callable[[], float]], None] | None = None) -> RunResult:
    """Run one seed on virtual time and return its result. `watch` is given the virtual clock, in seconds.

    It may read the clock from another thread; nothing of the run depends on it.
    """
    with _silence():
        return run_virtual(_run(options, watch))


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress the extender's log: its history is reported with each violation."""
    before = structlog.get_config()
    logging.disable(logging.CRITICAL)
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=silent, processors=[_drop], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)
        logging.disable(logging.NOTSET)


def _drop(_logger: object, _method: str, _event: object) -> NoReturn:
    raise structlog.DropEvent


async def _run(options: Options, watch: Callable[[Callable[[], float]], None] | None) -> RunResult:
    duration = options.days * DAY_S
    if watch is not None:
        watch(asyncio.get_running_loop().time)
    async with _scenario(options, duration) as stage:
        await asyncio.sleep(duration)
        await _come_to_rest(stage)
        return _outcome(options, stage)


@asynccontextmanager
async def _scenario(options: Options, duration: float) -> AsyncIterator[_Scenario]:
    seed = random.Random(options.seed)  # noqa: S311 - everything is to come again

    def draw() -> random.Random:
        return random.Random(seed.getrandbits(64))  # noqa: S311

    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        rng = random.Random(f"the site of seed {options.seed}")  # noqa: S311
        epilogs = Epilogs(rng)
        fenced = (FaultClass.EPILOGS in options.faults and rng.random() < 0.5) or options.gangs > 0
        site = _site(rng, options)
        shapes = random.Random(f"the shapes of seed {options.seed}")  # noqa: S311
        tight = allocatable(shapes, site.nodes)
        files = Path(stack.enter_context(TemporaryDirectory()))
        cluster = await enter(_cluster(options, site, epilogs, tight, fence_key=SITE_KEY if fenced else ""))
        cluster.kubelets.heartbeat_s = HEARTBEAT_S
        cluster.kubelets.start_s = site.container_start_s
        _configure(cluster, site, _site_key(files) if fenced else None, foreign=bool(options.foreign))
        cluster.rng = draw
        cluster.scheduler.rng = random.Random(f"the back-offs of seed {options.seed}")  # noqa: S311
        links = draw()
        cluster.network.latency = lambda: links.choice([0.0, 0.001, 0.002, 0.02])
        event_log, quiescence = EventLog(), QuiescenceTracker()
        operators = Operators(cluster, draw(), event_log, quiescence, busy := max(60.0, duration / 20))
        checker = InvariantChecker(cluster, event_log, quiescence, operators)
        workload = PodCreator(cluster, draw(), event_log, options.pods, duration, site.modes, shapes if tight else None)
        neighbours = NativeJobUsers(cluster, draw(), event_log, max(30.0, duration / 30))
        foreigners = ForeignPodScheduler(cluster, options.seed, event_log, options.foreign, duration)
        pace = max(90.0, duration / 8)
        injector = FaultInjector(cluster, draw(), event_log, quiescence, classes=options.faults, every_s=pace)
        injector.restored = operators.note_restore
        lives = max(120.0, duration / 6) if {FaultClass.CRASHES, FaultClass.SCOPE} & options.faults else 0.0
        scopes = FaultClass.SCOPE in options.faults
        supervisor: Supervisor | ReplicaPair = Supervisor(
            cluster, draw(), event_log, quiescence, checker, lives, scopes
        )
        if FaultClass.REPLICAS in options.faults:
            supervisor = ReplicaPair(
                cluster, draw(), event_log, quiescence, checker=checker, every_s=max(60.0, duration / 6), scopes=scopes
            )
        if FaultClass.EPILOGS in options.faults:
            epilogs.operators = operators
        machines = _machines(options.seed, cluster, checker, busy) if site.machines else []
        upkeep = _upkeep(options.seed, cluster, checker, busy)
        gangs = _gangs(options, cluster, event_log, site, duration)
        policies = _policies(options.seed, cluster, checker, files, busy)
        checker.begin()
        NodeInvariants(cluster, checker).begin()
        ForeignPodInvariants(cluster, checker).begin()
        if options.gangs:
            gangs.begin()
            GangInvariants(cluster, checker, gangs).begin()
        await enter(in_background(supervisor.run()))
        await cluster.until(lambda: hasattr(cluster, "extender"), "a first life")
        scenario = _Scenario(
            cluster,
            event_log,
            workload,
            neighbours,
            operators,
            injector,
            supervisor,
            checker,
            epilogs,
            foreigners,
            machines,
            upkeep,
            policies,
            gangs,
        )
        for work in _works(scenario, options.faults):
            await enter(in_background(work))
        yield scenario


def _works(stage: _Scenario, faults: frozenset[FaultClass]) -> Iterator[Coroutine[Any, Any, None]]:
    """Yield what everyone does who acts on the cluster."""
    yield stage.checker.run()
    yield stage.workload.run()
    yield stage.workload.act_as_users()
    yield stage.neighbours.run()
    yield stage.injector.run()
    if FaultClass.OPERATORS in faults:
        yield stage.operators.run()
        yield stage.upkeep.run()
        yield from (one.run() for one in stage.machines)
    if {FaultClass.AMNESIA, FaultClass.RESTORES} & faults:
        yield stage.operators.confirm_held_evictions()
    yield stage.foreigners.run()
    yield stage.gangs.run()
    yield from (one.run() for one in stage.policies)


def _cluster(
    options: Options, site: SiteProfile, epilogs: Epilogs, tight: Mapping[str, Mapping[str, str]], *, fence_key: str
) -> AbstractAsyncContextManager[SimCluster]:
    return simulated_cluster(
        SimCluster,
        nodes=site.nodes,
        partitions=[*site.partitions, *([FOREIGN_PARTITION] if options.foreign else [])],
        release=options.slurm,
        slurm_config=site.config,
        fence_key=fence_key,
        fence_only_on=_fence_only_on(options, site) if fence_key else None,
        more=epilogs.beside,
        naming=options.naming,
        allocatable=_as_large(site.nodes, tight) if options.foreign else tight,
    )


def _fence_only_on(options: Options, site: SiteProfile) -> frozenset[str] | None:
    """Draw the nodes with the fence script as Epilog; `None`: it is installed in each of its places."""
    rng = random.Random(f"the fence of seed {options.seed}")  # noqa: S311 - everything is to come again
    if options.gangs or rng.random() < 0.5:
        return None
    names = sorted(node.name for node in site.nodes)
    return frozenset(rng.sample(names, rng.randint(1, max(1, len(names) - 1))))


def _site_key(files: Path) -> Path:
    file = files / "site.key"
    file.write_text(SITE_KEY, encoding="utf-8")
    return file


def _site(rng: random.Random, options: Options) -> SiteProfile:
    release = SimRelease(options.slurm)
    return draw_site(rng, options.nodes, release, machines=has_external_nodes(options.seed, release))


def _machines(seed: int, cluster: SimCluster, checker: InvariantChecker, every_s: float) -> list[ExternalNodeChanges]:
    rng = random.Random(f"what becomes of the machines of seed {seed}")  # noqa: S311
    machines = ExternalNodeChanges(cluster, rng, checker, every_s)
    machines.begin()
    return [machines]


def _upkeep(seed: int, cluster: SimCluster, checker: InvariantChecker, every_s: float) -> MaintenanceOperators:
    upkeep = MaintenanceOperators(cluster, random.Random(f"the upkeep of seed {seed}"), checker, every_s)  # noqa: S311
    upkeep.begin()
    return upkeep


def _gangs(
    options: Options, cluster: SimCluster, event_log: EventLog, site: SiteProfile, duration: float
) -> GangControllers:
    rng = random.Random(f"the gangs of seed {options.seed}")  # noqa: S311
    with_slurmd = sum(1 for node in site.nodes if not node.external)
    widest = min(16, with_slurmd if with_slurmd > 1 else len(site.nodes))
    modes = tuple(mode for mode in site.modes if mode != "external") or site.modes
    return GangControllers(cluster, rng, event_log, options.gangs, duration, modes, widest)


def _policies(
    seed: int, cluster: SimCluster, checker: InvariantChecker, files: Path, every_s: float
) -> list[PolicyEditor]:
    if not has_policies(seed):
        return []
    rng = random.Random(f"what becomes of the policies of seed {seed}")  # noqa: S311
    policies = PolicyEditor(cluster, rng, checker, files / "policy.yaml", every_s)
    policies.begin()
    cluster.config = cluster.config.replace("jobs: {", f"jobs: {{{policies.setting}")
    return [policies]


async def _come_to_rest(stage: _Scenario) -> None:
    """Heal all faults; then every Pod must be placed, and everything must end."""
    cluster, checker = stage.cluster, stage.checker
    stage.event_log.add("everything is healed")
    stage.supervisor.quiet = True
    stage.injector.heal()
    async with stage.injector.restoring:  # A restore under way brings back what operators undo before its end.
        stage.upkeep.heal()
        stage.operators.heal()
    stage.neighbours.stop()
    stage.epilogs.stopped = True
    stage.workload.stop()
    stage.gangs.stop()
    stage.foreigners.stop()
    for one in stage.machines:
        one.heal()
    for each in stage.policies:
        each.heal()
    loop = asyncio.get_running_loop()
    end = loop.time() + REST_WITHIN_S
    while loop.time() < end and any(checker.waits_in_slurm(pod) for pod in cluster.pods()):
        await asyncio.sleep(60.0)
        stage.gangs.try_fences()
        for name in cluster.bound_pods()[:4]:  # Room for those that wait.
            _delete(stage, name)
    for pod in cluster.pods():
        if checker.waits_in_slurm(pod):
            checker.violate(Invariant.REST, "it never got its turn", pod_subject(pod["metadata"]["name"]))
        _delete(stage, pod["metadata"]["name"])
    while loop.time() < end + REST_WITHIN_S and _restless(stage):
        await asyncio.sleep(10.0)
        stage.foreigners.stop()
        for pod in cluster.pods():  # A deletion may have been undone by the last restore of etcd.
            _delete(stage, pod["metadata"]["name"])
    for subject in _restless(stage):
        checker.violate(Invariant.REST, "it is still there when all has ended", subject)
    checker.check()


def _configure(cluster: SimCluster, site: SiteProfile, site_key: Path | None, *, foreign: bool) -> None:
    config = site.configured(cluster.config.replace("limits: {refreshRate: 2}\n", PACES))
    if site_key is not None:
        config = config.replace("key: secret", f"key: secret, siteKeyFile: {site_key}")
    if site.tainted:
        cluster.kube.mutate = add_tolerations
    cluster.config = config + (FOREIGN_PODS if foreign else "")


def _as_large(nodes: Sequence[SimNode], tight: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return allocatable resources equal to those in Slurm, so that Pods of either scheduler can fill the nodes."""
    return {
        node.name: {"cpu": str(node.cpus), "memory": f"{node.memory_mb}Mi", **tight.get(node.name, {})}
        for node in nodes
    }


def _restless(stage: _Scenario) -> list[str]:
    cluster = stage.cluster
    left = [pod_subject(pod["metadata"]["name"]) for pod in cluster.pods()]
    left += [job_subject(job.job_id) for job in cluster.live_jobs()]
    left += [node_subject(node) for one in stage.machines for node in one.wrong()]
    return left + [node_subject(node) for node in cluster.drained()]


def _delete(stage: _Scenario, name: str) -> None:
    pod = stage.cluster.kube.pod(name)
    if pod is None or "deletionTimestamp" in pod["metadata"]:
        return
    stage.event_log.add("deleted at the end", pod_subject(name))
    try:
        stage.cluster.kube.delete_pod(name)
    except StatusError:
        return


def _outcome(options: Options, stage: _Scenario) -> RunResult:
    checker, supervisor = stage.checker, stage.supervisor
    injected = stage.injector.injected + Counter({f"operators: {k}": v for k, v in stage.operators.done.items()})
    injected += Counter({f"operators: {what}": count for what, count in stage.upkeep.done.items()})
    for each in stage.policies:
        injected += Counter({f"policies: {what}": count for what, count in each.done.items()})
    for one in stage.machines:
        injected += Counter({f"machines: {what}": count for what, count in one.done.items()})
    if isinstance(supervisor, ReplicaPair):
        injected += supervisor.injected
    else:
        injected += Counter({"crashes: killed": supervisor.killed, "crashes: stopped": supervisor.stopped})
    waits = sorted(checker.waits)
    lines = [
        f"seed {options.seed}: {options.command}",
        f"pods: {stage.workload.made} made, {stage.gangs.made} of {len(stage.gangs.gangs)} gangs; {len(waits)} bound; "
        f"ended: {_counts(checker.fates)}",
        f"waits: p50 {_at(waits, 0.5):.1f} s, p99 {_at(waits, 0.99):.1f} s",
        f"jobs: {_counts(checker.states)}; preempted {checker.preempted}",
        f"faults: {_counts(injected)}",
        f"extender starts: {supervisor.lives}",
        f"starts beside a Pod that no fence can prevent: {_counts(checker.windows)}",
        f"invariants: {checker.checked.total()} checks, {len(checker.violations)} violations",
        *(f"  {invariant}: {checker.checked[invariant]}" for invariant in Invariant if checker.checked[invariant]),
        f"virtual time: {asyncio.get_running_loop().time():.3f} s; event log: sha256 {stage.event_log.digest()}",
    ]
    return RunResult(
        options,
        tuple(checker.violations),
        "\n".join(lines) + "\n",
        stage.event_log.text(),
        stage.event_log.digest(),
        injected,
        checker.checked,
        checker.windows,
        stage.workload.made + stage.gangs.made,
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
