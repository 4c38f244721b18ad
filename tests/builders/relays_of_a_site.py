"""Relays between an extender of the real parts and Slurm and the API server, which strike in one of its requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lab.credentials import EXTENDER
from lab.site import Site
from tests.builders.crashes import Wire
from tests.builders.relay import Asked, Blow, Relay


@dataclass(frozen=True, slots=True)
class Between:
    """The relays, to Slurm and to the API server. `settings` make an extender use them."""

    relays: tuple[Relay, Relay]
    settings: Mapping[str, Mapping[str, Any]]

    def arm(self, blow: Blow) -> None:
        for relay in self.relays:
            relay.blow = blow

    def disarm(self) -> None:
        for relay in self.relays:
            relay.blow = None


@dataclass(slots=True)
class Kth:
    """Matches the k-th of the requests that `wire` matches, from 1."""

    wire: Wire
    k: int
    seen: int = field(default=0)

    def __call__(self, asked: Asked) -> bool:
        """Whether it is that one."""
        self.seen += self.wire(asked)
        return self.seen == self.k and self.wire(asked)


@contextmanager
def relays(site: Site) -> Iterator[Between]:
    """Relays of a site, until the end of the block."""
    with Relay(site.slurm.rest_url) as slurm, Relay(site.kube.url, site.kube.ca_file.parent) as kube:
        config = site.home / "kubeconfig-of-the-relay.yaml"
        config.touch(mode=0o600)
        config.write_text(site.kube.kubeconfig_for(EXTENDER).read_text().replace(site.kube.url, kube.url))
        settings: dict[str, dict[str, Any]] = {
            "slurm": {"addresses": [slurm.url]},
            "kubernetes": {"kubeconfig": str(config)},
        }
        yield Between((slurm, kube), settings)
