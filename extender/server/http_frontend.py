"""Open the listeners of the process before anything is known behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog

from extender.assembly.io_context import IoContext
from extender.certificates.tls.contexts import ReloadingTls
from extender.config.document import ExtenderConfiguration
from extender.http.app import Services, endpoints
from extender.http.server import serving
from extender.http.service import Check
from extender.http.service_gate import ServiceGate
from extender.observability.metrics.registry import Metrics
from extender.observability.process_metrics import CERTIFICATES
from extender.server.descriptors import within_limit
from extender.server.replica import Replica

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class HttpFrontend:
    """Open listeners, and what the starting process needs of them."""

    config: ExtenderConfiguration
    io_context: IoContext
    metrics: Metrics
    service_gate: ServiceGate
    close: Callable[[], Coroutine[None, None, None]]
    """Close the listeners: no new request is accepted, and requests under way finish."""

    replica: Replica | None = None
    """This process among others; `None` where it is alone."""

    def lease_transitions(self) -> int:
        """Return how many changes of the Lease's holder this process has seen."""
        return 0 if self.replica is None else self.replica.election.transitions_seen


@asynccontextmanager
async def http_frontend(
    config: ExtenderConfiguration, io_context: IoContext, *, gates: bool = True
) -> AsyncIterator[HttpFrontend]:
    """Open all listeners before the cluster is known. `gates`: new Pods are changed.

    Raises `CannotListen`, `TlsError`.
    """
    certificates: dict[str, ReloadingTls] = {}
    metrics = Metrics(
        io_context.clock,
        by_partition=config.observability.partition_label,
        further={
            CERTIFICATES: lambda: {
                name: end for name, tls in certificates.items() if (end := tls.expires_at) is not None
            }
        },
    )

    def certificate_checks() -> list[Check]:
        return [_certificate(name, tls, io_context.clock.wall()) for name, tls in certificates.items()]

    service_gate = ServiceGate(config, certificate_checks)
    replica = Replica(config, io_context, service_gate) if config.leader_election.enabled else None
    open_endpoints = endpoints(
        config,
        Services(
            service_gate,
            metrics,
            io_context.clock,
            gates=gates,
            ready=lambda: service_gate.useful,
            wrap=replica.wrap if replica is not None else lambda app: app,
        ),
    )
    if io_context.listen is None:
        open_endpoints = within_limit(config, open_endpoints)
    async with AsyncExitStack() as stack:
        if replica is not None:
            stack.push_async_callback(replica.close)
        opening = serving(
            open_endpoints,
            stop_within_s=config.http.shutdown_timeout,
            listen=io_context.listen,
            certified=certificates.__setitem__,
            refused=metrics.refused,
        )
        await stack.enter_async_context(opening)
        for check in certificate_checks():
            if not check.ok:
                _log.error("certificate_check_failed", check=check.name, error=check.text)
        yield HttpFrontend(config, io_context, metrics, service_gate, stack.aclose, replica)


def _certificate(name: str, tls: ReloadingTls, wall: float) -> Check:
    """Report a bad certificate without changing readiness: the other replica most likely has the same one."""
    fault = tls.fault(wall)
    return Check(f"certificate-{name.partition('.')[0]}", not fault, fault, required=False)
