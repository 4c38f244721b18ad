"""List the listeners of a configuration, and find those that cannot be opened or cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from extender.config.serving import AdmissionWebhook, Hooks, Http, Observability, ServerTls
from extender.config.values import BindAddress, is_loopback

_EVERY_INTERFACE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not opened


@dataclass(frozen=True, slots=True)
class Listener:
    """One address that the process listens at, and the key that sets it."""

    key: str
    bind: BindAddress
    tls: ServerTls | None = None

    @property
    def host(self) -> str:
        """Return the interface: "" is every one, `localhost` its usual address."""
        host = self.bind.host
        return "" if host in _EVERY_INTERFACE else "127.0.0.1" if host == "localhost" else host


def listeners_of(
    http: Http, admission: AdmissionWebhook, hooks: Hooks, observability: Observability
) -> tuple[Listener, ...]:
    """Return every listener that is configured. Two with the same text are one socket."""
    given = (
        ("http.bind", http.bind, http.tls),
        ("admission.bind", admission.bind, admission.tls),
        ("hooks.bind", hooks.bind, hooks.tls),
        ("observability.healthBind", observability.health_bind, None),
        ("observability.metricsBind", observability.metrics_bind, None),
        ("observability.debugBind", observability.debug_bind, None),
    )
    return tuple(Listener(key, bind, tls) for key, bind, tls in given if bind is not None)


def conflicts(listeners: Sequence[Listener]) -> Iterator[str]:
    """Yield a sentence for each two listeners that cannot be opened beside each other."""
    for number, later in enumerate(listeners):
        for first in listeners[:number]:
            if first.bind.port != later.bind.port:
                continue
            if str(first.bind) == str(later.bind):
                if first.tls != later.tls:
                    yield (
                        f"{first.key} and {later.key} are both {later.bind}: then both must have the same tls, or none"
                    )
            elif first.host == later.host or "" in {first.host, later.host}:
                yield (
                    f"{first.key} is {first.bind} and {later.key} is {later.bind}: two listeners cannot share port "
                    f"{later.bind.port}; one of them must have another port"
                )


def unreachable(listeners: Sequence[Listener]) -> tuple[Listener, ...]:
    """Return those on the loopback interface that other Pods have to reach. `/debug` belongs there."""
    return tuple(
        one for one in listeners if one.key != "observability.debugBind" and one.host and is_loopback(one.host)
    )
