"""Open the listeners, find the cluster's identity, then run until stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import structlog

from extender.assembly import Assembly, KeyFileError, require_key
from extender.assembly.io_context import IoContext
from extender.certificates.tls.contexts import TlsError
from extender.config.document import ExtenderConfiguration
from extender.http.server import CannotListen
from extender.http.service_gate import ServiceGate
from extender.kube.cluster import cluster_id
from extender.kube.errors import ApiError
from extender.server.active_role import working
from extender.server.dry_run_role import dry_running
from extender.server.http_frontend import http_frontend
from extender.server.signal_handlers import SignalHandlers
from extender.server.supervision import TaskDied

_log = structlog.get_logger(__name__)

CLUSTER_ID_RETRY = 2.0
"""Seconds between two tries to read the cluster's identity at the start."""


class StartError(Exception):
    """The process cannot start; the text says what to fix."""


def _untraced(_assembly: Assembly) -> None:
    """Do nothing: the process has no endpoint for traces."""


async def serve(
    config: ExtenderConfiguration,
    io_context: IoContext,
    orders: SignalHandlers,
    *,
    dry: bool = False,
    trace: Callable[[Assembly], None] = _untraced,
) -> None:
    """Run until stopped, also while the start still waits for the API server.

    `dry`: log the requests that would be sent, and write nothing, neither to Slurm nor to Kubernetes. `trace` receives
    the process before it begins.

    Raises `StartError`; `TaskDied` if a part of the process failed, which was logged then.
    """
    if dry:
        alone = config.leader_election.model_copy(update={"enabled": False})
        config = config.model_copy(update={"leader_election": alone})
        io_context.write_gate.share(0.0)  # and it is never granted: no write leaves the process
    try:
        if not dry:
            require_key(config)
        async with http_frontend(config, io_context, gates=not dry) as frontend:
            cluster = config.scheduler.cluster_id or await _unless(
                orders.stop, _cluster_id(io_context, frontend.service_gate)
            )
            if cluster is not None:
                async with dry_running(frontend, cluster) if dry else working(frontend, cluster) as assembly:
                    trace(assembly)
                    with orders.confirming(assembly.mass_deletion_guard.confirm):
                        await orders.stop.wait()
                    _log.info("stopping")
    except* (KeyFileError, CannotListen, TlsError) as group:
        raise StartError("; ".join(str(error) for error in group.exceptions)) from group
    except* TaskDied as group:
        raise _first(group) from None
    _log.info("stopped")


def _first(error: BaseException) -> BaseException:
    """Return the first of the faults of a group, and of groups in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _cluster_id(io_context: IoContext, service_gate: ServiceGate) -> str:
    while True:
        try:
            return await cluster_id(io_context.kubernetes)
        except ApiError as error:
            service_gate.trouble = str(error)
            _log.warning("cluster_not_identified", error=str(error))
            await asyncio.sleep(CLUSTER_ID_RETRY)


async def _unless(stop: asyncio.Event, work: Coroutine[None, None, str]) -> str | None:
    """Return the result of `work`; `None` if `stop` is set before."""
    wanted, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((wanted, stopped), return_when=asyncio.FIRST_COMPLETED)
        return wanted.result() if wanted.done() else None
    finally:
        for task in (wanted, stopped):
            task.cancel()
        await asyncio.gather(wanted, stopped, return_exceptions=True)
