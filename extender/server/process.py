"""The process of this machine: its event loop, garbage, signals, wires and traces."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys

import structlog
import uvloop

from extender.assembly import Assembly
from extender.assembly.io_context import IoContext, real_io_context
from extender.config.document import ExtenderConfiguration
from extender.config.listeners import unreachable
from extender.kube.connection import IN_A_POD, CredentialsError
from extender.observability.logs import set_up, toggle_debug
from extender.runtime.topics import PlaceholderChanged, PlaceholderForgotten
from extender.server.descriptors import raise_limit
from extender.server.life import StartError, serve
from extender.server.signal_handlers import SignalHandlers
from extender.server.supervision import TaskDied

_log = structlog.get_logger(__name__)

GARBAGE = (10_000, 0, 1000)
"""`gc.set_threshold`: nearly all memory is freed by reference counts, and a search for cycles stops the event loop.

A search of the youngest generation reads 10,000 objects, and every second search also those that the last one left
(20 ms if they are records of Pods and nodes): no object is read more than twice. A full search follows when the number
has grown by a quarter, 20 million objects later.
"""

SWITCH_S = 0.0005
"""`sys.setswitchinterval`: a call of kube-scheduler waits no longer for a thread that reads a large reply."""


def run(config: ExtenderConfiguration, *, dry: bool = False) -> None:
    """Serve until SIGTERM or SIGINT. Raises `StartError`; ends the process with 1 where a part of it died (logged).

    `dry`: see `serve`.
    """
    set_up(config.observability.log_level, config.observability.log_format, for_good=True)
    warn_of_loopback(config)
    raise_limit()
    gc.set_threshold(*GARBAGE)
    sys.setswitchinterval(SWITCH_S)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(config, dry=dry))
    except TaskDied:
        sys.exit(1)


def warn_of_loopback(config: ExtenderConfiguration) -> None:
    """Log the listeners that no other Pod reaches, where this process runs in a Pod."""
    if IN_A_POD not in os.environ:
        return
    for one in unreachable(config.listeners):
        advice = "other Pods and the kubelet do not reach it; set it to :PORT unless all its clients are in this Pod"
        _log.warning("listens_on_loopback", key=one.key, address=str(one.bind), what=advice)


async def _run(config: ExtenderConfiguration, *, dry: bool) -> None:
    orders = SignalHandlers()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, orders.stop.set)
    loop.add_signal_handler(signal.SIGUSR1, orders.confirm_mass_deletion)
    loop.add_signal_handler(signal.SIGUSR2, toggle_debug, config.observability.log_level)
    try:
        io_context = await real_io_context(config)
    except (CredentialsError, OSError, ValueError) as error:
        raise StartError(str(error)) from error
    await asyncio.sleep(0)  # handle a signal that came meanwhile before anything else is created
    try:
        if config.observability.exports_traces(os.environ):
            await _traced(config, io_context, orders, dry=dry)
        else:
            await serve(config, io_context, orders, dry=dry)
    finally:
        await io_context.close()


async def _traced(config: ExtenderConfiguration, io_context: IoContext, orders: SignalHandlers, *, dry: bool) -> None:
    """Run the same with spans sent; those that are left are sent at the end."""
    from extender.observability.tracing import Exporter, Traces, TracingUnusable  # noqa: PLC0415 - an extra, and not small

    endpoint = config.observability.traces_endpoint
    try:
        exporter = Exporter(
            None if endpoint is None else str(endpoint), config.leader_election.identity or io_context.host
        )
    except TracingUnusable as error:
        raise StartError(str(error)) from error

    def trace(assembly: Assembly) -> None:
        traces = Traces(exporter.tracer, io_context.clock, assembly.engine.histories.of)
        assembly.events.subscribe(PlaceholderChanged, lambda event: traces.moved(event.before, event.after))
        assembly.events.subscribe(PlaceholderForgotten, lambda event: traces.forgotten(event.key))

    try:
        await serve(config, io_context, orders, dry=dry, trace=trace)
    finally:
        await asyncio.to_thread(exporter.close)
