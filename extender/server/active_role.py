"""Run the informers, and the controllers once this replica leads; stop both in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from extender.assembly import Assembly, all_parts
from extender.assembly.io_context import IoContext
from extender.config.document import ExtenderConfiguration
from extender.http.hook_service import HookService
from extender.http.inspection import Inspection
from extender.http.pod_drain_waiters import PodDrainWaiters
from extender.observability.process_metrics import connect
from extender.server.http_frontend import HttpFrontend, http_frontend
from extender.server.supervision import cancel, part

_log = structlog.get_logger(__name__)

ANSWERED_WITHIN = 5.0
"""Seconds at the end for answers to what was asked of Slurm and the API server. With the listeners and a release
(`http.shutdownTimeout`, `election`), less than a Pod's terminationGracePeriodSeconds."""

FLUSH_WITHIN = 2.0
"""Seconds at the end for Events that were not sent yet."""


@asynccontextmanager
async def living(
    config: ExtenderConfiguration, io_context: IoContext, cluster: str, *, validate: bool = False
) -> AsyncIterator[Assembly]:
    """Run the whole process in this context, in a cluster that is known. `validate`: see `working`."""
    async with http_frontend(config, io_context) as frontend, working(frontend, cluster, validate=validate) as assembly:
        yield assembly


@asynccontextmanager
async def working(frontend: HttpFrontend, cluster: str, *, validate: bool = False) -> AsyncIterator[Assembly]:
    """Run everything behind the listeners while inside. `validate` checks the core's invariants after every step.

    On leaving: no call is accepted any more, calls under way finish, the tasks end, answers to sent requests are
    awaited, and remaining Events are sent. Open work for Slurm and Pods is found again by the next start. The Lease is
    released last; while a request is unanswered it is left to expire, so that the next leader does not search for the
    result of a request before it is complete.
    """
    metrics, replica, write_gate = frontend.metrics, frontend.replica, frontend.io_context.write_gate
    assembly = Assembly(
        frontend.config,
        frontend.io_context,
        cluster,
        parts=all_parts,
        observe_request=metrics.slurm_requested,
        observe_poll=metrics.polled,
        validate=validate,
    )
    connect(metrics, assembly, leads=lambda: write_gate.held, lease_transitions=frontend.lease_transitions)
    hooks = HookService(
        assembly.engine,
        assembly.state,
        PodDrainWaiters(assembly.engine.placeholders, assembly.events),
        assembly.hook_keys,
        assembly.site_key,
        now=frontend.io_context.clock.now,
        ready=lambda: assembly.ready,
        request_read=assembly.job_controllers.controller.request_read,
        read=assembly.job_controllers.hook_reads.read,
        hold_nodes_of_ended_job=assembly.node_controllers.fences.job_ended,
        hold=assembly.node_controllers.controller.hold_on,
        release_removed_pods=assembly.node_controllers.removals.release_removed_pods,
        wait_until_drained=assembly.node_controllers.controller.wait_until_drained,
        clearance=assembly.node_controllers.clearance,
        fence_called=assembly.node_controllers.fence_evidence.called,
        native=assembly.node_controllers.native_jobs,
        wait_until_marked=assembly.node_controllers.marks.wait_until_marked,
    )
    inspection = Inspection(assembly, replica)
    frontend.service_gate.expose_debug(
        inspection, warm=lambda: assembly.informers.synced and (replica is None or replica.known)
    )
    async with asyncio.TaskGroup() as standing:
        election = None
        if replica is not None:
            election = standing.create_task(part("election", replica.stand()), name="election")
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(part(name, work), name=name) for name, work in assembly.watchers().items()]

                async def lead() -> None:
                    if replica is not None:
                        await replica.elected.wait()
                        await assembly.lead(write_gate.epoch)
                    writers = assembly.writers().items()
                    tasks.extend(group.create_task(part(name, work), name=name) for name, work in writers)
                    frontend.service_gate.activate(assembly.scheduling, hooks, inspection)
                    metrics.answers()
                    await _adopt(assembly)

                tasks.append(group.create_task(part("adopt", lead(), ends=True), name="adopt"))
                try:
                    yield assembly
                finally:
                    try:
                        hooks.close()
                        assembly.scheduling.close()
                        if not write_gate.held:
                            cancel(tasks)
                            frontend.io_context.in_flight_writes.give_up()
                        await frontend.close()
                    finally:
                        cancel(tasks)
        finally:
            left = await _last_words(assembly) if write_gate.held else 0
            if election is not None and replica is not None:
                election.cancel()
                await asyncio.wait([election])
                await replica.election.release(runs_out=bool(left))


async def _last_words(assembly: Assembly) -> int:
    """Wait for answers, and send remaining Events. Return how many requests are unanswered."""
    left = await assembly.io_context.in_flight_writes.answered(ANSWERED_WITHIN)
    if left:
        _log.warning("requests_unanswered", count=left, after_s=ANSWERED_WITHIN)
    await assembly.announcer.flush(FLUSH_WITHIN)
    return left


async def _adopt(assembly: Assembly) -> None:
    await assembly.adopt()
    _log.info("ready", pods=len(assembly.informers.pods), nodes=len(assembly.informers.nodes), cluster=assembly.cluster)
