"""One run of `slurm-extender generate certificates`: reads what is kept, and brings it to what it should be.

Written in an order in which a run that is cut off anywhere leaves what the next one goes on with: the authority first,
then who trusts it and is signed by it, then whoever has to be told.
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
"""How often a run begins again because another one was faster."""


LONGEST_OVERLAP = timedelta(days=365)
"""The next authority is made when a third of ten years is left: it has to sign before that is over."""


def checked_name(text: str) -> str:
    """A host name or an IP address, as certificates have it. Raises ValueError."""
    try:
        return str(ip_address(text))
    except ValueError:
        pass
    if not re.fullmatch(rf"(\*\.)?{_LABEL}(\.{_LABEL})*", text, re.ASCII) or len(text) > 253:
        raise ValueError(f"{text!r} is neither a host name nor an IP address")
    return text


def checked_namespace(text: str) -> str:
    """The name of a namespace. Raises ValueError."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text, re.ASCII):
        raise ValueError(f"{text!r} is no name of a namespace")
    return text


_LABEL = r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"


class Keeper(Protocol):
    """Where certificates are kept: `secrets.Secrets` or `folder.Folder`."""

    def place(self, name: str) -> str:
        """How people call it."""
        ...

    async def read(self, name: str) -> StoredData:
        """What is kept under a name."""
        ...

    async def write(self, name: str, before: StoredData, data: Data) -> None:
        """Keep that instead, if what is kept is still as `before`."""
        ...


@dataclass(frozen=True, slots=True)
class RenewalOptions:
    """What is wanted."""

    namespace: str
    overlap: timedelta
    extra_names: tuple[str, ...] = ()
    renew: bool = False
    dry_run: bool = False
    service: str = "slurm-extender"

    @property
    def authority(self) -> str:
        """The Secret of the authority. Nothing mounts it."""
        return f"{self.service}-ca"

    @property
    def subjects(self) -> dict[str, Subject]:
        """Whom certificates are for, by the Secrets that the Deployments mount."""
        served = [f"{self.service}.{self.namespace}.svc", f"{self.service}-hooks.{self.namespace}.svc"]
        served += [f"{name}.cluster.local" for name in served]
        return {
            # A replica shows it to the leader, too.
            f"{self.service}-tls": Subject("slurm-extender", (*served, *self.extra_names), server=True, client=True),
            "slurm-scheduler-tls": Subject("slurm-scheduler", client=True),
            f"{self.service}-webhook-tls": Subject(
                "slurm-extender-webhook", (f"{self.service}-webhook.{self.namespace}.svc",), server=True
            ),
        }


@dataclass(frozen=True, slots=True)
class Consumers:
    """Who else has to know the authorities; nobody, where certificates are kept in a folder."""

    restarts: Restarts | None = field(default=None)
    webhook: Webhook | None = field(default=None)


async def renew(keeper: Keeper, order: RenewalOptions, consumers: Consumers, now: datetime) -> list[str]:
    """Do it; returns what was done, line by line. Raises what `keeper` raises, and `Conflict` where that never ends."""
    for _ in range(ATTEMPTS - 1):
        try:
            return await _once(keeper, order, consumers, now)
        except Conflict:
            continue
    return await _once(keeper, order, consumers, now)


async def _once(keeper: Keeper, order: RenewalOptions, consumers: Consumers, now: datetime) -> list[str]:
    before = await keeper.read(order.authority)
    leaves = {name: await keeper.read(name) for name in order.subjects}
    everywhere = True
    if consumers.restarts is not None:
        progress = await consumers.restarts.progress(before.data.get(TRUSTED, b""))
        everywhere = progress in {Progress.DONE, Progress.ABSENT}
    terms = Terms(now, order.overlap, everywhere=everywhere, renew=order.renew)
    signs = authority(before.data, [one.data for one in leaves.values()], terms)
    said: list[str] = []
    plan = [(order.authority, before, signs.outcome)]
    plan += [(name, leaves[name], leaf(leaves[name].data, one, signs, terms)) for name, one in order.subjects.items()]
    for name, kept, outcome in plan:
        said += _lines(keeper.place(name), outcome.done)
        if outcome.data != kept.data and not order.dry_run:
            await keeper.write(name, kept, outcome.data)
    said += await _notify(consumers, signs.trusted, order.dry_run)
    return said


async def _notify(consumers: Consumers, trusted: bytes, dry_run: bool) -> list[str]:
    said: list[str] = []
    # First who must not be passed over because another may not be told.
    if consumers.restarts is not None and await consumers.restarts.progress(trusted) is Progress.STALE:
        if not dry_run:
            await consumers.restarts.restart(trusted)
        said.append("kube-scheduler: its Pods start anew, since they read authorities only then")
    if consumers.webhook is not None and await consumers.webhook.trust(trusted, dry_run=dry_run):
        said.append("webhook: trusts the authorities of now")
    return said


def _lines(place: str, done: Sequence[str]) -> list[str]:
    return [f"{place}: {one}" for one in done]
