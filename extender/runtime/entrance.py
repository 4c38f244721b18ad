"""The doors of the process, open before anything is known behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog

from extender.config.document import ExtenderConfiguration
from extender.front import Front
from extender.http.app import Services, doors
from extender.http.server import serving
from extender.http.service import Check
from extender.metrics.registry import Metrics
from extender.replica import Replica
from extender.scraped import CERTIFICATES
from extender.tls.contexts import ReloadingTls
from extender.wires import Wires

_log = structlog.get_logger(__name__)


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
async def entrance(config: ExtenderConfiguration, wires: Wires, *, gates: bool = True) -> AsyncIterator[Entrance]:
    """Open every door, before anything is known. `gates`: new Pods are changed. Raises `CannotListen`, `TlsError`."""
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
            gates=gates,
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
            refused=metrics.refused,
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
