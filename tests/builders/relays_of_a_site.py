"""Relays from a real extender to Slurm and to the API server, which inject a fault in one of its requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lab.credentials import EXTENDER
from lab.site import Site
from tests.builders.crashes import RequestPattern
from tests.builders.relay import InjectedFault, Relay, RelayedRequest, RequestLimit


@dataclass(frozen=True, slots=True)
class RelayPair:
    """Hold the relays to Slurm and to the API server. `settings` make an extender use them."""

    relays: tuple[Relay, Relay]
    settings: Mapping[str, Mapping[str, Any]]

    def arm(self, fault: InjectedFault) -> None:
        for relay in self.relays:
            relay.fault = fault

    def limit_kube(self, limit: RequestLimit) -> None:
        """Limit the requests to the API server."""
        self.relays[1].limit = limit

    def disarm(self) -> None:
        for relay in self.relays:
            relay.fault = relay.limit = None


@dataclass(slots=True)
class NthRequest:
    """Match the k-th of the requests that `pattern` matches, from 1."""

    pattern: RequestPattern
    k: int
    seen: int = field(default=0)

    def __call__(self, request: RelayedRequest) -> bool:
        """Return whether this request is the k-th."""
        self.seen += self.pattern(request)
        return self.seen == self.k and self.pattern(request)


@contextmanager
def relays(site: Site) -> Iterator[RelayPair]:
    """Start the relays of a site, until the end of the block."""
    with Relay(site.slurm.rest_url) as slurm, Relay(site.kube.url, site.kube.ca_file.parent) as kube:
        config = site.home / "kubeconfig-of-the-relay.yaml"
        config.touch(mode=0o600)
        config.write_text(site.kube.kubeconfig_for(EXTENDER).read_text().replace(site.kube.url, kube.url))
        settings: dict[str, dict[str, Any]] = {
            "slurm": {"addresses": [slurm.url]},
            "http": {"bindTimeout": "5s"},  # members whose votes are not all there come into kube-scheduler's back-off
            "kubernetes": {"kubeconfig": str(config)},
        }
        yield RelayPair((slurm, kube), settings)
