"""Run `slurm-extender generate certificates` once: read the stored data, and write the changes.

The order of the writes lets the next run resume an interrupted one: the authority first, then the certificates and
their bundles, then the clients that must read the bundle again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Protocol

from extender.certificates.pair import Subject
from extender.certificates.plan import TRUSTED, Data, Terms, authority, leaf
from extender.certificates.secrets import Progress, Restarts, StoredData, Webhook
from extender.kube.errors import Conflict

ATTEMPTS = 5
"""Attempts if another run writes at the same time."""


LONGEST_OVERLAP = timedelta(days=365)
"""The next authority is created when a third of ten years is left, and must sign before that is over."""


def checked_name(text: str) -> str:
    """Return a host name or an IP address as in certificates. Raises ValueError."""
    try:
        return str(ip_address(text))
    except ValueError:
        pass
    if not re.fullmatch(rf"(\*\.)?{_LABEL}(\.{_LABEL})*", text, re.ASCII) or len(text) > 253:
        raise ValueError(f"{text!r} is neither a host name nor an IP address")
    return text


def checked_namespace(text: str) -> str:
    """Return the name of a namespace. Raises ValueError."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text, re.ASCII):
        raise ValueError(f"{text!r} is not the name of a namespace")
    return text


_LABEL = r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"


class CertificateStore(Protocol):
    """The storage of certificates: `secrets.Secrets` or `folder.Folder`."""

    def place(self, name: str) -> str:
        """Return the name for messages."""
        ...

    async def read(self, name: str) -> StoredData:
        """Return the data under a name."""
        ...

    async def write(self, name: str, before: StoredData, data: Data) -> None:
        """Replace the data if it is still `before`."""
        ...


@dataclass(frozen=True, slots=True)
class RenewalOptions:
    """The wanted state."""

    namespace: str
    overlap: timedelta
    extra_names: tuple[str, ...] = ()
    renew: bool = False
    dry_run: bool = False
    service: str = "slurm-extender"
    webhook: str = "slurm-extender-gate"
    """The MutatingWebhookConfiguration that trusts the authority."""

    @property
    def authority(self) -> str:
        """Return the Secret of the authority. Nothing mounts it."""
        return f"{self.service}-ca"

    @property
    def subjects(self) -> dict[str, Subject]:
        """Return the holders of certificates, by the Secrets that the Deployments mount."""
        served = [f"{self.service}.{self.namespace}.svc", f"{self.service}-hooks.{self.namespace}.svc"]
        served += [f"{name}.cluster.local" for name in served]
        return {
            # A replica also uses it as client certificate towards the leader.
            f"{self.service}-tls": Subject("slurm-extender", (*served, *self.extra_names), server=True, client=True),
            "slurm-scheduler-tls": Subject("slurm-scheduler", client=True),
            f"{self.service}-webhook-tls": Subject(
                "slurm-extender-webhook", (f"{self.service}-webhook.{self.namespace}.svc",), server=True
            ),
        }


@dataclass(frozen=True, slots=True)
class Consumers:
    """The clients that have to know the authorities; none if certificates are stored in a folder."""

    restarts: Restarts | None = field(default=None)
    webhook: Webhook | None = field(default=None)


async def renew(store: CertificateStore, order: RenewalOptions, consumers: Consumers, now: datetime) -> list[str]:
    """Renew, and return a line for each action. Raises errors of `keeper`, and `Conflict` after the last attempt."""
    for _ in range(ATTEMPTS - 1):
        try:
            return await _once(store, order, consumers, now)
        except Conflict:
            continue
    return await _once(store, order, consumers, now)


async def _once(store: CertificateStore, order: RenewalOptions, consumers: Consumers, now: datetime) -> list[str]:
    before = await store.read(order.authority)
    leaves = {name: await store.read(name) for name in order.subjects}
    everywhere = True
    if consumers.restarts is not None:
        progress = await consumers.restarts.progress(before.data.get(TRUSTED, b""))
        everywhere = progress in {Progress.DONE, Progress.ABSENT}
    terms = Terms(now, order.overlap, everywhere=everywhere, renew=order.renew)
    signs = authority(before.data, [one.data for one in leaves.values()], terms)
    lines: list[str] = []
    plan = [(order.authority, before, signs.outcome)]
    plan += [(name, leaves[name], leaf(leaves[name].data, one, signs, terms)) for name, one in order.subjects.items()]
    for name, kept, outcome in plan:
        lines += _lines(store.place(name), outcome.done)
        if outcome.data != kept.data and not order.dry_run:
            await store.write(name, kept, outcome.data)
    lines += await _notify(consumers, signs.trusted, order.dry_run)
    return lines


async def _notify(consumers: Consumers, trusted: bytes, dry_run: bool) -> list[str]:
    lines: list[str] = []
    # The Deployment first: an error at the webhook must not prevent its restart.
    if consumers.restarts is not None and await consumers.restarts.progress(trusted) is Progress.STALE:
        if not dry_run:
            await consumers.restarts.restart(trusted)
        lines.append("kube-scheduler: its Pods are replaced, since they read authorities only at their start")
    if consumers.webhook is not None and await consumers.webhook.trust(trusted, dry_run=dry_run):
        lines.append("webhook: trusts the current authorities")
    return lines


def _lines(place: str, done: Sequence[str]) -> list[str]:
    return [f"{place}: {one}" for one in done]
