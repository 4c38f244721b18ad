"""Runs one process from start to end. Any task that dies ends it: limping is worse than starting again."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import structlog
import uvloop

from extender.assembly import Assembly, KeyFileError
from extender.config.derive import traces_wanted
from extender.config.document import ExtenderConfiguration
from extender.controllers.rehearsal import NobodyPlaced, Rehearsal
from extender.controllers.translations import Translations
from extender.election import Deposed
from extender.front import Front
from extender.hook_desk import HookDesk
from extender.http.app import Services, doors
from extender.http.server import CannotListen, serving
from extender.http.service import Check
from extender.inspection import Inspection
from extender.kube.cluster import cluster_id
from extender.kube.connection import CredentialsError
from extender.kube.errors import ApiError
from extender.kube.owners import OwnerReader
from extender.logs import set_up, toggle_debug
from extender.metrics.registry import Metrics
from extender.replica import Replica
from extender.scraped import CERTIFICATES, REHEARSED, REHEARSED_WAITING, connect
from extender.tls import ReloadingTls, TlsError
from extender.wires import Wires, real_wires

_log = structlog.get_logger(__name__)

CLUSTER_ID_RETRY = 2.0
"""Seconds between two tries to read the cluster's identity at the start."""


GARBAGE = (20_000, 20, 50)
"""`gc.set_threshold`: nearly all here is freed by reference counts, and a search for cycles walks over every mirror."""

FLUSH_WITHIN = 2.0
"""Seconds at the end for Events that were not sent yet."""


@dataclass(slots=True)
class Orders:
    """What a person tells the process by signals."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """SIGTERM, SIGINT."""

    release_brake: Callable[[], None] | None = None
    """What SIGUSR1 does once the process is up: it is known why so many jobs are not there, their Pods may be ended."""

    def let_go(self) -> None:
        """SIGUSR1 came."""
        if self.release_brake is not None:
            self.release_brake()


class TaskDied(Exception):
    """A part of the process that should run for ever has ended; the text says which and why."""


class StartError(Exception):
    """The process cannot start; the text says what to mend."""


def run(config: ExtenderConfiguration, *, dry: bool = False) -> None:
    """Serve until SIGTERM or SIGINT. Raises `StartError`; ends the process with 1 where a part of it died (logged).

    `dry`: see `serve`.
    """
    set_up(config.observability.log_level, config.observability.log_format)
    gc.set_threshold(*GARBAGE)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(config, dry=dry))
    except TaskDied:
        sys.exit(1)


async def _run(config: ExtenderConfiguration, *, dry: bool) -> None:
    orders = Orders()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, orders.stop.set)
    loop.add_signal_handler(signal.SIGUSR1, orders.let_go)
    loop.add_signal_handler(signal.SIGUSR2, toggle_debug, config.observability.log_level)
    try:
        wires = await real_wires(config)
    except (CredentialsError, OSError, ValueError) as error:
        raise StartError(str(error)) from error
    try:
        if traces_wanted(config, os.environ):
            await _traced(config, wires, orders, dry=dry)
        else:
            await serve(config, wires, orders, dry=dry)
    finally:
        await wires.close()


async def _traced(config: ExtenderConfiguration, wires: Wires, orders: Orders, *, dry: bool) -> None:
    """The same, and spans are sent. What is left of them is sent at the end."""
    from extender.tracing import Exporter, Traces, TracingUnusable  # noqa: PLC0415 - an extra, and not small

    endpoint = config.observability.traces_endpoint
    try:
        exporter = Exporter(None if endpoint is None else str(endpoint), config.leader_election.identity or wires.host)
    except TracingUnusable as error:
        raise StartError(str(error)) from error

    def trace(assembly: Assembly) -> None:
        traces = Traces(exporter.tracer, wires.clock, assembly.engine.story)
        assembly.engine.listeners.append(traces.moved)

    try:
        await serve(config, wires, orders, dry=dry, trace=trace)
    finally:
        await asyncio.to_thread(exporter.close)


def _untraced(_assembly: Assembly) -> None:
    """For a process without an endpoint for traces."""


async def serve(
    config: ExtenderConfiguration,
    wires: Wires,
    orders: Orders,
    *,
    dry: bool = False,
    trace: Callable[[Assembly], None] = _untraced,
) -> None:
    """Live on these wires until told to stop, also while the start still waits for the API server.

    `dry`: say what would be asked of Slurm, and write nothing, neither there nor in Kubernetes. `trace` is shown the
    process before it begins.

    Raises `StartError`; `TaskDied` where a part of the process failed, which was logged then.
    """
    if dry:
        alone = config.leader_election.model_copy(update={"enabled": False})
        config = config.model_copy(update={"leader_election": alone})
        wires.mandate.share(0.0)  # and nobody ever grants it: not a byte of a write leaves
    try:
        async with entrance(config, wires) as way_in:
            cluster = config.scheduler.cluster_id or await _unless(orders.stop, _cluster_id(wires, way_in.front))
            if cluster is not None:
                async with rehearsing(way_in, cluster) if dry else working(way_in, cluster) as assembly:
                    trace(assembly)
                    orders.release_brake = assembly.release_brake
                    await orders.stop.wait()
                    _log.info("stopping")
    except* (KeyFileError, CannotListen, TlsError) as group:
        raise StartError("; ".join(str(error) for error in group.exceptions)) from group
    except* TaskDied as group:
        raise _first(group) from None
    _log.info("stopped")


def _first(error: BaseException) -> BaseException:
    """The first of the faults of a group, and of groups in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@dataclass(frozen=True, slots=True)
class Entrance:
    """Open doors, and what a process that is not there yet needs of them."""

    config: ExtenderConfiguration
    wires: Wires
    metrics: Metrics
    front: Front
    close: Callable[[], Coroutine[None, None, None]]
    """Shut the doors: nothing is accepted any more, requests under way finish."""

    replica: Replica | None = None
    """This process among others; `None` where it is alone."""


@asynccontextmanager
async def entrance(config: ExtenderConfiguration, wires: Wires) -> AsyncIterator[Entrance]:
    """Open every door, before anything is known. Raises `CannotListen`, `TlsError`."""
    metrics, front = Metrics(wires.clock), Front(config)
    replica = Replica(config, wires, front) if config.leader_election.enabled else None
    open_doors = doors(
        config,
        Services(
            front,
            front,
            metrics,
            wires.clock,
            front,
            ready=lambda: front.useful,
            wrap=replica.wrap if replica is not None else lambda app: app,
        ),
    )
    certificates: dict[str, ReloadingTls] = {}
    metrics.sources.further[CERTIFICATES] = lambda: {
        name: end for name, tls in certificates.items() if (end := tls.expires_at) is not None
    }
    front.certificates = lambda: [_certificate(name, tls, wires.clock.wall()) for name, tls in certificates.items()]
    async with AsyncExitStack() as stack:
        if replica is not None:
            stack.push_async_callback(replica.close)
        opening = serving(
            open_doors,
            stop_within_s=config.http.stop_within,
            listen=wires.listen,
            certified=certificates.__setitem__,
        )
        await stack.enter_async_context(opening)
        for check in front.certificates():
            if not check.ok:
                _log.error("certificate_bad", check=check.name, error=check.text)
        yield Entrance(config, wires, metrics, front, stack.aclose, replica)


def _certificate(name: str, tls: ReloadingTls, wall: float) -> Check:
    """A bad one takes nobody's calls away from another replica, which most likely has the same: it only informs."""
    fault = tls.fault(wall)
    return Check(f"certificate-{name.partition('.')[0]}", not fault, fault, required=False)


@asynccontextmanager
async def living(
    config: ExtenderConfiguration, wires: Wires, cluster: str, *, validate: bool = False
) -> AsyncIterator[Assembly]:
    """The whole process on these wires, while inside, in a cluster that is known. `validate`: see `working`."""
    async with entrance(config, wires) as way_in, working(way_in, cluster, validate=validate) as assembly:
        yield assembly


@asynccontextmanager
async def working(way_in: Entrance, cluster: str, *, validate: bool = False) -> AsyncIterator[Assembly]:
    """Everything behind the doors, while inside. `validate` holds the core's invariants after every step.

    On leaving: nothing is accepted any more, requests under way finish, the tasks end, and what people have not been
    told yet is sent. What is owed to Slurm and to Pods is found again by the next start. The Lease goes last.
    """
    metrics, replica = way_in.metrics, way_in.replica
    assembly = Assembly(
        way_in.config,
        way_in.wires,
        cluster,
        observe_request=metrics.slurm_asked,
        observe_poll=metrics.polled,
        validate=validate,
    )
    connect(metrics, assembly)
    hooks = HookDesk(
        assembly.engine,
        assembly.hook_key,
        assembly.site_key,
        ready=lambda: assembly.ready,
        hint=assembly.job_controller.hint,
        over=assembly.fence_controller.over,
        hold=assembly.node_controller.hold,
        vouch=assembly.removal_controller.vouch,
        held=assembly.node_controller.held,
        clearance=assembly.clearance,
        native=assembly.native_jobs,
        locked=assembly.mark_controller.locked,
    )
    mandate = way_in.wires.mandate
    metrics.sources.leads = lambda: mandate.held
    inspection = Inspection(assembly, replica)
    way_in.front.look_into(inspection, warm=lambda: assembly.warm and (replica is None or replica.known))
    async with asyncio.TaskGroup() as standing:
        election = None
        if replica is not None:
            metrics.sources.lease_transitions = lambda: replica.election.transitions_seen
            election = standing.create_task(_part("election", replica.stand()), name="election")
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_part(name, work), name=name) for name, work in _mirrors(assembly).items()]

                async def lead() -> None:
                    if replica is not None:
                        await replica.elected.wait()
                        await assembly.lead(mandate.epoch)
                    writers = _writers(assembly).items()
                    tasks.extend(group.create_task(_part(name, work), name=name) for name, work in writers)
                    way_in.front.staff(assembly.scheduling, hooks, inspection)
                    await _take_up(assembly)

                tasks.append(group.create_task(_part("take up", lead(), ends=True), name="take up"))
                try:
                    yield assembly
                finally:
                    try:
                        hooks.close()
                        if not mandate.held:
                            _cancel(tasks)
                        await way_in.close()
                    finally:
                        _cancel(tasks)
        finally:
            if mandate.held:
                await assembly.announcer.flush(FLUSH_WITHIN)
            if election is not None and replica is not None:
                election.cancel()
                await asyncio.wait([election])
                await replica.election.release()


@asynccontextmanager
async def rehearsing(way_in: Entrance, cluster: str) -> AsyncIterator[Assembly]:
    """What a dry run does behind the doors, while inside: it knows what is, and says what it would ask for."""
    config, metrics, wires = way_in.config, way_in.metrics, way_in.wires
    assembly = Assembly(config, wires, cluster, observe_request=metrics.slurm_asked)
    connect(metrics, assembly)
    metrics.sources.leads = lambda: False
    rehearsal = Rehearsal(
        assembly.pods.all,
        assembly.pods,
        OwnerReader(wires.kubernetes, rng=wires.rng),
        Translations(lambda: assembly.policy_file.policy, wires.clock, assembly.namespaces.labels_of),
        config.scheduler.name,
    )
    assembly.policy_file.changed = rehearsal.reconsider
    assembly.namespaces.on_change(lambda _old, _new: rehearsal.reconsider())
    metrics.sources.further |= {REHEARSED: lambda: dict(rehearsal.done), REHEARSED_WAITING: rehearsal.waiting}
    inspection = Inspection(assembly)
    front = way_in.front
    front.staff(NobodyPlaced(config.scheduler.name, lambda: assembly.warm), front.hooks, inspection)
    _log.warning("dry_run", what="nothing is asked of Slurm, and nothing is written")
    async with asyncio.TaskGroup() as group:
        work = _mirrors(assembly) | {"rehearsal": rehearsal.run()}
        tasks = [group.create_task(_part(name, one), name=name) for name, one in work.items()]
        try:
            yield assembly
        finally:
            try:
                await way_in.close()
            finally:
                _cancel(tasks)


def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()


async def _part(name: str, work: Coroutine[None, None, None], *, ends: bool = False) -> None:
    """Run a part of the process. Raises `TaskDied` when it fails, and when it ends although it should not."""
    try:
        await work
    except Deposed as error:
        _log.critical("deposed", error=str(error))
        raise TaskDied(f"{name}: {error}") from error
    except Exception as error:
        _log.critical("task_died", task=name, error=repr(error), exc_info=True)
        raise TaskDied(f"{name}: {error!r}") from error
    if not ends:
        _log.critical("task_died", task=name, error="it returned")
        raise TaskDied(f"{name} returned")


def _mirrors(assembly: Assembly) -> dict[str, Coroutine[None, None, None]]:
    """What every replica runs: it knows what is, and changes nothing."""
    mirrors = {
        "pods": assembly.pod_reflector.run(),
        "nodes": assembly.node_reflector.run(),
        "device classes": assembly.class_reflector.run(),
        "node controller": assembly.node_controller.run(),
    }
    if assembly.policy_file.given:
        mirrors |= {"policy": assembly.policy_file.run(), "namespaces": assembly.namespace_reflector.run()}
    return mirrors


def _writers(assembly: Assembly) -> dict[str, Coroutine[None, None, None]]:
    """What runs besides where it may be acted upon."""
    return {
        "engine": assembly.engine.run(),
        "pod controller": assembly.pod_controller.run(),
        "gates": assembly.gate_controller.run(),
        "waking": assembly.wake_controller.run(),
        "claims": assembly.claim_controller.run(),
        "starts": assembly.start_controller.run(),
        "records": assembly.record_controller.run(),
        "explanations": assembly.explanations.run(),
        "fences": assembly.fence_controller.run(),
        "external nodes": assembly.external_node_controller.run(),
        "health of nodes": assembly.health_controller.run(),
        "marks on Nodes": assembly.mark_controller.run(),
        "native jobs": assembly.native_jobs.run(),
        "job controller": assembly.job_controller.run(),
        "orphans": assembly.orphan_controller.run(),
        "guests": assembly.guest_controller.run(),
        "overcommitment": assembly.overcommitment.run(),
        "removals": assembly.removal_controller.run(),
        "events": assembly.announcer.run(),
    }


async def _take_up(assembly: Assembly) -> None:
    await assembly.take_up()
    _log.info("ready", pods=len(assembly.pods), nodes=len(assembly.nodes), cluster=assembly.cluster)


async def _cluster_id(wires: Wires, front: Front) -> str:
    while True:
        try:
            return await cluster_id(wires.kubernetes)
        except ApiError as error:
            front.trouble = str(error)
            _log.warning("cluster_not_identified", error=str(error))
            await asyncio.sleep(CLUSTER_ID_RETRY)


async def _unless(stop: asyncio.Event, work: Coroutine[None, None, str]) -> str | None:
    """What `work` gives; `None` if `stop` is set before."""
    wanted, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((wanted, stopped), return_when=asyncio.FIRST_COMPLETED)
        return wanted.result() if wanted.done() else None
    finally:
        for task in (wanted, stopped):
            task.cancel()
        await asyncio.gather(wanted, stopped, return_exceptions=True)
