"""Decide which of several replicas leads, by the rules of client-go (`tools/leaderelection/leaderelection.go`).

Clocks of different machines are never compared: the times in a record are not read. A record counts as alive for its
own duration after it was last *seen to change*, by the clock of the replica that reads it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

JITTER = 1.2
"""client-go's `JitterFactor`: the pause between two tries is up to so many times the period longer."""


@dataclass(frozen=True, slots=True)
class ElectionTiming:
    """Hold the periods, in seconds. They mean what client-go's mean.

    The defaults are shorter than those (15, 10, 2), so that jobs of deleted Pods end within 15 s of the death of a
    leader, whose successor needs up to 3 s once it has the Lease.
    """

    lease: float = 12.0
    renew_deadline: float = 8.0
    retry: float = 2.0

    @property
    def margin(self) -> float:
        """Return the seconds between the last write of a leader that cannot renew and the first write of the next."""
        return self.lease - self.renew_deadline

    @property
    def faults(self) -> tuple[str, ...]:
        """Return a sentence for each rule of client-go's `NewLeaderElector` that these periods break."""
        found = []
        if self.lease <= self.renew_deadline:
            found.append(f"leaseDuration is {self.lease:g} s: it must be longer than renewDeadline")
        if self.renew_deadline <= JITTER * self.retry:
            found.append(
                f"renewDeadline is {self.renew_deadline:g} s: it must be longer than {JITTER:g} times retryPeriod"
            )
        return tuple(found)


LONGEST_LEASE_S = 180.0
"""The longest `leaderElection.leaseDuration`, and the longest duration of a Lease that is accepted from the API server.

No configuration has a longer one, so a replica never takes the Lease of a live leader that is configured otherwise.
An edited duration therefore stops the extender for no longer than this.
"""

MOST_EPOCH = 2**31 - 1
"""`leaseTransitions` is an int32: the API server refuses more. Any client that may write the Lease may write this
number into it. The Lease is still held and taken over then, but the epochs of its holders no longer differ."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """Hold the content of a Lease. `holder` is "" if it is free; `addresses` are the holder's, by endpoint.

    `scheduler` is the schedulerName of its Pods, for administrators and for `slurm-extender doctor`.
    """

    holder: str = ""
    duration_s: float = 0.0
    transitions: int = 0
    acquired: str = ""
    renewed: str = ""
    addresses: tuple[tuple[str, str], ...] = ()
    scheduler: str = ""
    lock: str = ""
    """Names the process lock of the holder, which is free once the holder is dead; "": it has none."""

    def address(self, endpoint: str) -> str:
        """Return the address of an endpoint of the holder; "": the record has none."""
        return dict(self.addresses).get(endpoint, "")


@dataclass(frozen=True, slots=True)
class Sighting:
    """Hold the last record read, and when it was first read so, by the reader's clock. `None`: there was no record."""

    record: LeaseRecord | None = None
    since: float = -math.inf
    was_read: bool = field(default=False)
    """The Lease was read at least once."""

    def seeing(self, record: LeaseRecord | None, now: float) -> Self:
        """Return the sighting after the record was read again."""
        if self.was_read and record == self.record:
            return self
        return replace(self, record=record, since=now, was_read=True)

    def free_at(self, identity: str, *, dead_since: float = math.inf, margin: float = math.inf) -> float:
        """Return the instant from which `identity` may take the Lease; `inf` before the first read.

        `dead_since`: when the holder was known to be dead at the latest. Its last writes may be carried out for
        `margin` seconds after that, as after a Lease that ran out.
        """
        if not self.was_read:
            return math.inf
        record = self.record
        if record is None or record.holder in {"", identity}:
            return self.since
        return min(self.since + record.duration_s, dead_since + margin)


def accepted_duration(written: object) -> float:
    """Return the seconds for which a Lease counts after a change. `written` is its `leaseDurationSeconds`.

    Text, NaN, 0 and less state no duration: the Lease then counts for as long as a holder may have it.
    """
    try:
        seconds = float(written) if isinstance(written, int | float | str) else 0.0
    except (ValueError, OverflowError):
        return LONGEST_LEASE_S
    return seconds if 0 < seconds <= LONGEST_LEASE_S else LONGEST_LEASE_S


def taken(
    before: LeaseRecord | None, identity: str, timing: ElectionTiming, now: str, *, known: int = 0
) -> LeaseRecord:
    """Return the record with which `identity` creates the Lease or takes it over. `now` is for readers only.

    The number of transitions is the epoch of the holder. It begins with 1: 0 is that of a replica that never led.
    `known` is the highest epoch that this replica has seen: deleting or editing the Lease does not lower the epoch.
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


def renewed(record: LeaseRecord, timing: ElectionTiming, now: str) -> LeaseRecord:
    """Return the record with which its holder renews it, with the holder's own duration, whatever was written there."""
    return replace(record, duration_s=math.ceil(timing.lease), renewed=now)


def released(record: LeaseRecord, now: str) -> LeaseRecord:
    """Return the record with which its holder frees the Lease at once; client-go's `release`."""
    return replace(record, holder="", duration_s=1, renewed=now, acquired=now, addresses=(), lock="")
