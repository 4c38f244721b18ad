"""The rules by which one of several processes leads, those of client-go (`tools/leaderelection/leaderelection.go`).

Clocks of different machines are never compared: what another holder wrote about time is not read. A record counts as
alive for as long as it promises after it was last *seen to change*, by the clock of who looks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

JITTER = 1.2
"""client-go's `JitterFactor`: the pause between two tries is up to so many times the period longer."""


@dataclass(frozen=True, slots=True)
class ElectionTiming:
    """Seconds; client-go's defaults."""

    lease: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    @property
    def margin(self) -> float:
        """Between the last write of one who cannot renew and the first of another."""
        return self.lease - self.renew_deadline

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with these, by client-go's `NewLeaderElector`."""
        found = []
        if self.lease <= self.renew_deadline:
            found.append(f"leaseDuration is {self.lease:g} s: it must be longer than renewDeadline")
        if self.renew_deadline <= JITTER * self.retry:
            found.append(
                f"renewDeadline is {self.renew_deadline:g} s: it must be longer than {JITTER:g} times retryPeriod"
            )
        return tuple(found)


MOST_EPOCH = 2**31 - 1
"""`leaseTransitions` is an int32: the API server refuses more. Whoever may write the Lease may write this number into
it; the Lease is held and taken over then as ever, but epochs of holders do not differ any more."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What a Lease says. `holder` is "" where nobody holds it; `addresses` are where the holder is reached, by door.

    `scheduler` is the schedulerName of its Pods, for people and for `slurm-extender doctor`.
    """

    holder: str = ""
    duration_s: float = 0.0
    transitions: int = 0
    acquired: str = ""
    renewed: str = ""
    addresses: tuple[tuple[str, str], ...] = ()
    scheduler: str = ""

    def address(self, endpoint: str) -> str:
        """Where the holder's door is reached, "" where it does not say."""
        return dict(self.addresses).get(endpoint, "")


@dataclass(frozen=True, slots=True)
class Sighting:
    """The last record seen, and when it was first seen so, on the clock of who looks. `None`: no record has been."""

    record: LeaseRecord | None = None
    since: float = -math.inf
    looked: bool = field(default=False)
    """Somebody has looked, and was answered."""

    def seeing(self, record: LeaseRecord | None, now: float) -> Self:
        """After another look."""
        if self.looked and record == self.record:
            return self
        return replace(self, record=record, since=now, looked=True)

    def free_at(self, identity: str) -> float:
        """From when on `identity` may take it; `inf` before anybody has looked."""
        if not self.looked:
            return math.inf
        record = self.record
        if record is None or record.holder in {"", identity}:
            return self.since
        return self.since + record.duration_s


def taken(
    before: LeaseRecord | None, identity: str, timing: ElectionTiming, now: str, *, known: int = 0
) -> LeaseRecord:
    """The record of `identity` taking it over, or taking the first one. `now` is for people to read.

    The number of transitions is the epoch of the holder. It begins with 1: 0 is that of who never held a Lease.
    `known` is the highest that was ever seen here: a Lease that was deleted, or edited, does not take it back.
    """
    same = before is not None and before.holder == identity and before.transitions >= known
    if before is not None:
        known = max(known, before.transitions)
    return LeaseRecord(
        holder=identity,
        duration_s=math.ceil(timing.lease),
        transitions=min(known if same else known + 1, MOST_EPOCH),
        acquired=before.acquired if before is not None and same else now,
        renewed=now,
    )


def renewed(record: LeaseRecord, now: str) -> LeaseRecord:
    """The record of its holder a period later."""
    return replace(record, renewed=now)


def released(record: LeaseRecord, now: str) -> LeaseRecord:
    """The record that lets anybody take it at once; client-go's `release`."""
    return replace(record, holder="", duration_s=1, renewed=now, acquired=now, addresses=())
