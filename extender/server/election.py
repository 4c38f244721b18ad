"""Leader election by a Lease: one replica takes the Lease, renews it, and releases it when the process ends.

A follower reads the Lease more often than client-go does, and also at the instant at which it expires, because calls of
kube-scheduler wait until a new leader is there.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from extender.assembly.process_lock import ProcessLock
from extender.assembly.write_gate import WriteGate
from extender.domain import election
from extender.domain.election import ElectionTiming, LeaseRecord, Sighting
from extender.domain.ports import Clock
from extender.kube.errors import ApiError, Conflict
from extender.kube.lease import KeptLease, LeaseLock, micro_time

_log = structlog.get_logger(__name__)

CHECK_EVERY_S = 1.0
"""Seconds between two reads of the Lease by a follower. A released Lease has a new holder within 2 s."""

TICK_S = 0.001
"""Shortest wait in seconds, because clocks round."""

RELEASE_WITHIN_S = 2.0
"""If releasing the Lease fails within this time, the Lease is left to expire."""


class Deposed(Exception):
    """The Lease could not be renewed in time, or another replica holds it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A process that takes part in the election: a unique identity, the addresses, and the schedulerName of its Pods.

    `lock` proves to a later process on the same machine that this one is dead.
    """

    identity: str
    addresses: tuple[tuple[str, str], ...] = ()
    scheduler: str = ""
    lock: ProcessLock | None = None


class Election:
    """Take, renew and release the Lease. `elapsed` is the clock of the write gate; `changed` signals a new leader."""

    def __init__(
        self,
        lock: LeaseLock,
        candidate: Candidate,
        timing: ElectionTiming,
        write_gate: WriteGate,
        *,
        elapsed: Callable[[], float],
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.candidate = candidate
        self._lock = lock
        self._timing = timing
        self._write_gate = write_gate
        self._elapsed = elapsed
        self._clock = clock
        self._rng = rng
        self._seen = Sighting()
        self._kept: KeptLease | None = None
        self._stood = False
        self._epoch_seen = 0
        self._changed = asyncio.Event()
        self.transitions_seen = 0
        """How often this process has seen the Lease change hands."""

        self.trouble = ""
        """Why the Lease could not be read or written the last time."""

    @property
    def known(self) -> bool:
        """Return whether the Lease has been read: it has a holder, or it can be taken."""
        return self._seen.was_read

    @property
    def leader(self) -> LeaseRecord | None:
        """Return the holder's record; `None` if the Lease has no holder."""
        record = self._seen.record
        return record if record is not None and record.holder else None

    @property
    def leading(self) -> bool:
        """Return whether this process holds the Lease."""
        return self._write_gate.held

    async def changes(self) -> None:
        """Wait until leader or role may be another than now."""
        await self._changed.wait()

    async def campaign(self) -> None:
        """Return when this process leads."""
        while True:
            try:
                await self._check()
                if self._elapsed() >= self._free_at():
                    await self._take()
                    return
            except Conflict as error:
                _log.info("lease_taken_by_another", error=str(error))
                continue_in = TICK_S
            except ApiError as error:
                self._troubled(error)
                continue_in = CHECK_EVERY_S
            else:
                free_in = self._free_at() - self._elapsed()
                continue_in = max(TICK_S, min(CHECK_EVERY_S, free_in + TICK_S))
            await asyncio.sleep(continue_in)

    async def reign(self) -> None:
        """Renew for as long as it can be, and twice as often after a failure. Raises Deposed."""
        failed = doubted = False
        while True:
            pause = self._timing.retry * (0.5 if failed else self._rng.uniform(1.0, election.JITTER))
            pause = TICK_S if doubted else pause
            await self._wait_while_held(min(pause, max(TICK_S, self._write_gate.left_s)))
            try:
                await self._renew()
            except ApiError as error:
                self._troubled(error)
                failed, doubted = True, isinstance(error, Conflict)  # another replica may hold it: see who does
            else:
                failed = doubted = False

    async def release(self, *, runs_out: bool = False) -> None:
        """Release the Lease at once, or let it expire while a request that was sent may still be executed.

        Call it when the process has stopped writing: no write may follow.
        """
        # One that ran out was lost to others, or will be; one that was asked for and not answered may be held.
        lost = self._write_gate.epoch > 0 and not self._write_gate.held
        self._write_gate.give_up()
        if lost or runs_out or not self._stood:
            return
        try:
            if self._kept is None:
                await self._check()
            if self._kept is None or self._kept.record.holder != self.candidate.identity:
                return
            free = election.released(self._kept.record, micro_time(self._clock.wall()))
            await self._lock.write(self._kept, free, RELEASE_WITHIN_S)
        except ApiError as error:
            _log.warning("lease_not_released", error=str(error))
        else:
            _log.info("lease_released", epoch=self._write_gate.epoch)

    def _free_at(self) -> float:
        """Return when this process may take the Lease. A holder whose lock this process has is dead."""
        record, lock = self._seen.record, self.candidate.lock
        dead_since = None
        if record is not None and lock is not None and record.lock and record.lock == lock.name:
            dead_since = lock.since()
        return self._seen.free_at(
            self.candidate.identity,
            dead_since=math.inf if dead_since is None else dead_since,
            margin=self._timing.margin,
        )

    async def _check(self) -> None:
        self._kept = await self._lock.read(self._timing.renew_deadline / 2)
        self._see(self._kept)

    async def _take(self) -> None:
        before = self._kept.record if self._kept is not None else None
        now = micro_time(self._clock.wall())
        record = election.taken(before, self.candidate.identity, self._timing, now, known=self._epoch_seen)
        lock = self.candidate.lock
        name = lock.name if lock is not None and lock.since() is not None else ""
        await self._put(
            replace(record, addresses=self.candidate.addresses, scheduler=self.candidate.scheduler, lock=name)
        )
        _log.warning("leader_elected", identity=self.candidate.identity, epoch=self._write_gate.epoch)

    async def _renew(self) -> None:
        if self._kept is None:  # the last request was not answered: it may have been carried out
            await self._check()
        if self._kept is None or self._kept.record.holder != self.candidate.identity:
            holder = "no replica" if self._kept is None else self._kept.record.holder or "no replica"
            self._write_gate.give_up()
            raise Deposed(f"{holder} holds the Lease {self._lock.namespace}/{self._lock.name}")
        await self._put(election.renewed(self._kept.record, self._timing, micro_time(self._clock.wall())))

    async def _put(self, record: LeaseRecord) -> None:
        """Write it. The right begins when the request was sent, not when it was answered."""
        before, self._kept, self._stood = self._kept, None, True
        sent_at = self._elapsed()
        timeout_s = max(
            TICK_S, min(self._timing.renew_deadline / 3, self._write_gate.left_s or self._timing.renew_deadline)
        )
        self._kept = await self._lock.write(before, record, timeout_s)
        self._write_gate.renewed(sent_at, record.transitions)
        self._see(self._kept)

    def _see(self, kept: KeptLease | None) -> None:
        before = self._seen
        if kept is not None:
            self._epoch_seen = max(self._epoch_seen, kept.record.transitions)
        self._seen = before.seeing(kept.record if kept is not None else None, self._elapsed())
        if self.trouble:
            _log.info("lease_reachable")
            self.trouble = ""
        was = before.record.holder if before.record is not None else ""
        now = self._seen.record.holder if self._seen.record is not None else ""
        if now and before.was_read and was != now:
            self.transitions_seen += 1
        if was != now or not before.was_read:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def _troubled(self, error: ApiError) -> None:
        if not self.trouble:
            _log.warning("lease_unreachable", error=str(error))
        self.trouble = str(error)

    async def _wait_while_held(self, seconds: float) -> None:
        """Wait for so many seconds. Raises Deposed as soon as the right to write is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._write_gate.wait_closed()
        except TimeoutError:
            pass
        if not self._write_gate.may_write():
            raise Deposed(f"the Lease was not renewed in time{f': {self.trouble}' if self.trouble else ''}")
