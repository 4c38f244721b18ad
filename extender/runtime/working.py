"""What works behind the doors: the parts that watch, those that write once this process leads, and how both end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from extender.assembly import Assembly
from extender.config.document import ExtenderConfiguration
from extender.hook_desk import HookDesk
from extender.inspection import Inspection
from extender.runtime.entrance import Entrance, entrance
from extender.runtime.parts import cancel, part
from extender.scraped import connect
from extender.wires import Wires

_log = structlog.get_logger(__name__)

ANSWERED_WITHIN = 5.0
"""Seconds at the end for answers to what was asked of Slurm and the API server. With what the doors and a release may
take (`http.stopWithin`, `election`), less than a Pod's terminationGracePeriodSeconds."""

FLUSH_WITHIN = 2.0
"""Seconds at the end for Events that were not sent yet."""


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

    On leaving: nothing is accepted any more, requests under way finish, the tasks end, answers to what they have sent
    are waited for, and what people have not been told yet is sent. What is owed to Slurm and to Pods is found again by
    the next start. The Lease goes last; while something is unanswered it is left to run out, so that whoever leads next
    does not look for what it did before it is done.
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
        assembly.hook_keys,
        assembly.site_key,
        now=way_in.wires.clock.now,
        ready=lambda: assembly.ready,
        hint=assembly.about_jobs.controller.hint,
        over=assembly.about_nodes.fences.over,
        hold=assembly.about_nodes.controller.hold,
        vouch=assembly.about_nodes.removals.vouch,
        held=assembly.about_nodes.controller.held,
        clearance=assembly.about_nodes.clearance,
        native=assembly.about_nodes.native_jobs,
        locked=assembly.about_nodes.marks.locked,
    )
    mandate = way_in.wires.mandate
    metrics.sources.leads = lambda: mandate.held
    inspection = Inspection(assembly, replica)
    way_in.front.look_into(inspection, warm=lambda: assembly.mirrors.synced and (replica is None or replica.known))
    async with asyncio.TaskGroup() as standing:
        election = None
        if replica is not None:
            metrics.sources.lease_transitions = lambda: replica.election.transitions_seen
            election = standing.create_task(part("election", replica.stand()), name="election")
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(part(name, work), name=name) for name, work in assembly.watchers().items()]

                async def lead() -> None:
                    if replica is not None:
                        await replica.elected.wait()
                        await assembly.lead(mandate.epoch)
                    writers = assembly.writers().items()
                    tasks.extend(group.create_task(part(name, work), name=name) for name, work in writers)
                    way_in.front.staff(assembly.scheduling, hooks, inspection)
                    metrics.answers()
                    await _take_up(assembly)

                tasks.append(group.create_task(part("take up", lead(), ends=True), name="take up"))
                try:
                    yield assembly
                finally:
                    try:
                        hooks.close()
                        if not mandate.held:
                            cancel(tasks)
                            way_in.wires.unanswered.give_up()
                        await way_in.close()
                    finally:
                        cancel(tasks)
        finally:
            left = await _last_words(assembly) if mandate.held else 0
            if election is not None and replica is not None:
                election.cancel()
                await asyncio.wait([election])
                await replica.election.release(runs_out=bool(left))


async def _last_words(assembly: Assembly) -> int:
    """Wait for answers, and say what people have not been told. How many requests are unanswered."""
    left = await assembly.wires.unanswered.answered(ANSWERED_WITHIN)
    if left:
        _log.warning("requests_unanswered", count=left, after_s=ANSWERED_WITHIN)
    await assembly.announcer.flush(FLUSH_WITHIN)
    return left


async def _take_up(assembly: Assembly) -> None:
    await assembly.take_up()
    _log.info("ready", pods=len(assembly.mirrors.pods), nodes=len(assembly.mirrors.nodes), cluster=assembly.cluster)
