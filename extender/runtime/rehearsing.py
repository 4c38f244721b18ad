"""A dry run behind the doors: it knows what is, says what it would ask of Slurm, and writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from extender.assembly import Assembly
from extender.controllers.rehearsal import NobodyPlaced, Rehearsal
from extender.controllers.translations import Translations
from extender.inspection import Inspection
from extender.kube.owners import OwnerReader
from extender.runtime.entrance import Entrance
from extender.runtime.parts import cancel, part
from extender.scraped import REHEARSED, REHEARSED_WAITING, connect

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def rehearsing(way_in: Entrance, cluster: str) -> AsyncIterator[Assembly]:
    """What a dry run does behind the doors, while inside: it knows what is, and says what it would ask for."""
    config, metrics, wires = way_in.config, way_in.metrics, way_in.wires
    assembly = Assembly(config, wires, cluster, observe_request=metrics.slurm_asked)
    connect(metrics, assembly)
    metrics.sources.leads = lambda: False
    rehearsal = Rehearsal(
        assembly.mirrors.pods.all,
        assembly.mirrors.pods,
        OwnerReader(wires.kubernetes, rng=wires.rng),
        Translations(
            lambda: assembly.policy_file.policy,
            wires.clock,
            assembly.mirrors.namespaces.labels_of,
            lambda: assembly.engine.guarded,
        ),
        config.scheduler.name,
    )
    assembly.policy_file.changed = rehearsal.reconsider
    assembly.engine.guards_changed = rehearsal.reconsider
    assembly.mirrors.namespaces.on_change(lambda _old, _new: rehearsal.reconsider())
    metrics.sources.further |= {REHEARSED: lambda: dict(rehearsal.done), REHEARSED_WAITING: rehearsal.waiting}
    inspection = Inspection(assembly)
    front = way_in.front
    front.staff(NobodyPlaced(config.scheduler.name, lambda: assembly.mirrors.synced), front.hooks, inspection)
    _log.warning("dry_run", what="nothing is asked of Slurm, and nothing is written")
    async with asyncio.TaskGroup() as group:
        work = assembly.watchers() | {"rehearsal": rehearsal.run()}
        tasks = [group.create_task(part(name, one), name=name) for name, one in work.items()]
        try:
            yield assembly
        finally:
            try:
                await way_in.close()
            finally:
                cancel(tasks)
