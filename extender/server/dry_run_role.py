"""Run `serve --dry-run`: log what would be requested from Slurm, and write nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from extender.assembly import Assembly, all_parts
from extender.controllers.dry_run import DryRun, NoopScheduling
from extender.controllers.translations import Translations
from extender.domain.wellknown import GATE
from extender.http.inspection import Inspection
from extender.kube.owners import OwnerReader
from extender.observability.process_metrics import DRY_RUN_PODS, DRY_RUN_TRANSLATIONS, connect
from extender.runtime.topics import PolicyChanged
from extender.server.http_frontend import HttpFrontend
from extender.server.supervision import cancel, part

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def dry_running(frontend: HttpFrontend, cluster: str) -> AsyncIterator[Assembly]:
    """Run a dry run behind the listeners while inside: read the state, and log the requests that would be sent."""
    config, metrics, io_context = frontend.config, frontend.metrics, frontend.io_context
    assembly = Assembly(config, io_context, cluster, parts=all_parts, observe_request=metrics.slurm_requested)
    dry_run = DryRun(
        assembly.informers.pods.all,
        assembly.informers.pods,
        OwnerReader(io_context.kubernetes, rng=io_context.rng),
        Translations(
            lambda: assembly.policy_file.policy,
            io_context.clock,
            assembly.informers.namespaces.labels_of,
            lambda: assembly.engine.restricted,
        ),
        config.scheduler.name,
        site=assembly.gang_context,
        own_gates=[GATE],
    )
    assembly.events.subscribe(PolicyChanged, lambda _event: dry_run.reconsider())
    assembly.informers.namespaces.on_change(lambda _old, _new: dry_run.reconsider())
    further = {DRY_RUN_TRANSLATIONS: lambda: dict(dry_run.done), DRY_RUN_PODS: dry_run.waiting}
    connect(metrics, assembly, leads=lambda: False, further=further)
    inspection = Inspection(assembly)
    service_gate = frontend.service_gate
    service_gate.activate(
        NoopScheduling(config.scheduler.name, lambda: assembly.informers.synced), service_gate.hooks, inspection
    )
    _log.warning("dry_run", what="no job is submitted, and nothing is written")
    async with asyncio.TaskGroup() as group:
        work = assembly.watchers() | {"dry run": dry_run.run()}
        tasks = [group.create_task(part(name, one), name=name) for name, one in work.items()]
        try:
            yield assembly
        finally:
            try:
                await frontend.close()
            finally:
                cancel(tasks)
