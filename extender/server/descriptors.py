"""Keep the connections of all listeners together below the number of descriptors that the process may open."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Sequence
from dataclasses import replace

import structlog

from extender.config.document import ExtenderConfiguration
from extender.http.app import Endpoint
from extender.http.connections import DEFAULT_BOUNDS
from extender.http.server import CannotListen

_log = structlog.get_logger(__name__)

RESERVED = 128
"""Descriptors for files, sockets of listeners, connections that are being accepted or closed, and listeners of metrics
and debug pages that keep `LEAST`."""

LEAST = 16
"""Connections below which a listener is of no use; the least that the configuration allows."""

PROBED = "observability.healthBind"
BESIDE = frozenset({"observability.metricsBind", "observability.debugBind"})
"""Listeners that need a few connections, and never stop a start."""

FORWARDED = frozenset({"http.bind", "hooks.bind"})
"""A replica that does not lead opens a connection to the leader for each call that arrives there."""


def raise_limit() -> None:
    """Raise the soft limit of open descriptors to the hard one. The service manager or container runtime sets both."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # as on macOS, whose hard limit is higher than the kernel allows
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def within_limit(
    config: ExtenderConfiguration, endpoints: Sequence[Endpoint], limit: int | None = None
) -> list[Endpoint]:
    """Return the endpoints with limits of connections for which the descriptors suffice. Logs a reduction.

    The listener of the probes keeps its connections: the kubelet ends a process that does not answer them. The others
    are reduced by the same factor. `limit`: the descriptors of the process, read from the system if it is not given.
    Raises CannotListen if a listener would have fewer connections than the configuration may set.
    """
    if limit is None:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return list(endpoints)
    outgoing = config.kubernetes.connections + config.slurm.connections * len(config.slurm.addresses)
    fixed = RESERVED + outgoing + sum(_weight(one, config) * _kept(one) for one in endpoints)
    others = sum(_weight(one, config) * (one.bounds.connections - _kept(one)) for one in endpoints)
    if fixed + others <= limit:
        return list(endpoints)
    factor = (limit - fixed) / max(1, others)
    found = [_reduced(one, factor) for one in endpoints]
    names = {one.names[0]: one.bounds.connections for one in found}
    if factor <= 0 or min(names.values()) < LEAST:
        raise CannotListen(
            f"the process may open {limit} descriptors, and needs {fixed + others}: raise its hard limit "
            "of open files (RLIMIT_NOFILE, LimitNOFILE of systemd), or lower hooks.connections, gangs.largest and with "
            "it http.connections"
        )
    _log.warning(
        "connections_reduced",
        limit=limit,
        needed=fixed + others,
        connections=names,
        what="the hard limit of open files is too low for the listeners: raise it, or gangs of more Pods than half of "
        "http.bind's connections are not bound",
    )
    return found


def _kept(endpoint: Endpoint) -> int:
    """Return the connections of a listener that are never reduced."""
    return min(endpoint.bounds.connections, DEFAULT_BOUNDS.connections) if PROBED in endpoint.names else 0


def _weight(endpoint: Endpoint, config: ExtenderConfiguration) -> int:
    """Return the descriptors that one connection of a listener may take."""
    return 2 if config.leader_election.enabled and FORWARDED.intersection(endpoint.names) else 1


def _reduced(endpoint: Endpoint, factor: float) -> Endpoint:
    kept = _kept(endpoint)
    before = endpoint.bounds
    connections = kept + int((before.connections - kept) * factor)
    if BESIDE.issuperset(endpoint.names):
        connections = max(connections, min(before.connections, LEAST))
    of_one = before.per_address * connections // before.connections
    return replace(endpoint, bounds=replace(before, connections=connections, per_address=max(1, of_one)))
