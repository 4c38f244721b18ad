"""One replica's part in the election, where the Lease is lost, changed or not answered for."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

import pytest
from looptime import LoopTimeProxy

from extender.assembly.io_context import LoopClock, running_time
from extender.assembly.process_lock import ProcessLock
from extender.assembly.write_gate import WriteGate
from extender.domain.election import LONGEST_LEASE_S, ElectionTiming, LeaseRecord
from extender.kube.errors import ApiUnavailable, Conflict, OutcomeUnknown
from extender.kube.lease import KeptLease, LeaseLock
from extender.kube.wire.stream import Refusal
from extender.server.election import Candidate, Deposed, Election
from tests.builders.fake_api import a_rng

pytestmark = pytest.mark.looptime
TIMING = ElectionTiming()


class Lock:
    """A Lease in memory. `slow_s` delays every answer; a write is carried out when it is sent."""

    namespace, name = "slurm-extender", "slurm-extender"

    def __init__(self) -> None:
        self.kept: KeptLease | None = None
        self.writes: list[LeaseRecord] = []
        self.slow_s = 0.0
        self.away = False
        self.loses_answers = False
        self._version = 0

    async def read(self, timeout_s: float) -> KeptLease | None:
        await self._answer(timeout_s)
        return self.kept

    async def write(self, before: KeptLease | None, record: LeaseRecord, timeout_s: float) -> KeptLease:
        self._reached()
        if (before is None) != (self.kept is None) or (before and self.kept and before.whole != self.kept.whole):
            raise Conflict("PUT", Refusal(409, "Conflict", "the Lease was changed meanwhile"))
        self.writes.append(record)
        kept = self.put(record)
        if self.loses_answers:
            raise OutcomeUnknown("the connection broke")
        await self._answer(timeout_s, OutcomeUnknown)
        return kept

    def put(self, record: LeaseRecord) -> KeptLease:
        """As somebody else writes it."""
        self._version += 1
        self.kept = KeptLease(record, {"version": self._version})
        return self.kept

    def _reached(self) -> None:
        if self.away:
            raise ApiUnavailable("the API server is away")

    async def _answer(self, timeout_s: float, late: type[ApiUnavailable | OutcomeUnknown] = ApiUnavailable) -> None:
        self._reached()
        await asyncio.sleep(min(self.slow_s, timeout_s))
        if self.slow_s > timeout_s:
            raise late(f"no answer within {timeout_s:g} s")


def candidate(lock: Lock, name: str = "a", process_lock: ProcessLock | None = None) -> tuple[Election, WriteGate]:
    write_gate = WriteGate(running_time)
    write_gate.share(TIMING.renew_deadline, TIMING.margin)
    election = Election(
        cast(LeaseLock, lock),
        Candidate(name, lock=process_lock),
        TIMING,
        write_gate,
        elapsed=running_time,
        clock=LoopClock(running_time),
        rng=a_rng(),
    )
    return election, write_gate


@asynccontextmanager
async def reigning(election: Election) -> AsyncIterator[asyncio.Task[None]]:
    await election.campaign()
    task = asyncio.create_task(election.reign())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Deposed):
            await task


async def test_renewals_come_every_two_seconds_and_up_to_a_fifth_later() -> None:
    lock = Lock()
    election, _ = candidate(lock)
    async with reigning(election):
        await asyncio.sleep(240)
    times = [float(one.renewed[17:23]) + 60 * float(one.renewed[14:16]) for one in lock.writes]
    pauses = [late - early for early, late in itertools.pairwise(times)]
    assert 2.0 <= min(pauses) < 2.1
    assert 2.3 < max(pauses) <= 2.41


async def test_a_renewal_answered_late_counts_from_when_it_was_sent(looptime: LoopTimeProxy) -> None:
    lock = Lock()
    election, write_gate = candidate(lock)
    lock.slow_s = 2.5
    async with reigning(election):
        assert looptime == pytest.approx(5.0)  # a look, and the answer to the write
        assert write_gate.left_s == pytest.approx(TIMING.renew_deadline - 2.5)


async def test_an_acquisition_of_unknown_outcome_is_read_and_keeps_its_epoch() -> None:
    lock = Lock()
    election, write_gate = candidate(lock)
    lock.loses_answers = True
    task = asyncio.create_task(election.campaign())
    await asyncio.sleep(0.5)
    assert not write_gate.held
    lock.loses_answers = False
    await task
    assert (write_gate.held, write_gate.epoch) == (True, 1)


async def test_a_renewal_of_unknown_outcome_is_read_and_renewed_again() -> None:
    lock = Lock()
    election, write_gate = candidate(lock)
    async with reigning(election) as task:
        lock.loses_answers = True
        await asyncio.sleep(6)
        lock.loses_answers = False
        await asyncio.sleep(20)
        assert not task.done()
        assert (write_gate.held, write_gate.epoch) == (True, 1)


@pytest.mark.parametrize("what", ["away", "loses_answers"])
async def test_who_cannot_renew_is_deposed_at_the_deadline_and_no_later(what: str, looptime: LoopTimeProxy) -> None:
    lock = Lock()
    election, write_gate = candidate(lock)
    async with reigning(election) as task:
        setattr(lock, what, True)
        with pytest.raises(Deposed, match="not renewed in time"):
            await task
        assert TIMING.renew_deadline <= looptime <= TIMING.renew_deadline + 0.1
        assert not write_gate.may_write()


async def test_a_lease_that_was_deleted_deposes_its_holder() -> None:
    lock = Lock()
    election, write_gate = candidate(lock)
    async with reigning(election) as task:
        lock.kept = None
        with pytest.raises(Deposed, match="no replica holds the Lease slurm-extender/slurm-extender"):
            await task
        assert not write_gate.may_write()


async def test_a_lease_that_another_one_took_deposes_its_holder_and_is_left_alone() -> None:
    lock = Lock()
    election, write_gate = candidate(lock)
    async with reigning(election) as task:
        theirs = lock.put(LeaseRecord("b", 15, 2, "t", "t"))
        with pytest.raises(Deposed, match="b holds the Lease"):
            await task
        await election.release()
        assert lock.kept is theirs
        assert not write_gate.may_write()


async def test_a_lease_that_was_only_annotated_is_renewed() -> None:
    lock = Lock()
    election, write_gate = candidate(lock)
    async with reigning(election) as task:
        assert lock.kept is not None
        lock.put(lock.kept.record)
        await asyncio.sleep(8)
        assert not task.done()
        assert write_gate.left_s > 5


async def test_a_holder_replaces_another_duration_by_its_own() -> None:
    lock = Lock()
    election, _ = candidate(lock)
    async with reigning(election) as task:
        assert lock.kept is not None
        lock.put(replace(lock.kept.record, duration_s=LONGEST_LEASE_S))
        await asyncio.sleep(TIMING.retry * 1.2 + 0.2)
        assert not task.done()
        assert lock.writes[-1].duration_s == TIMING.lease


async def test_of_two_who_take_it_at_a_time_one_leads() -> None:
    lock = Lock()
    lock.slow_s = 0.2
    (one, first), (two, second) = candidate(lock, "a"), candidate(lock, "b")
    tasks = [asyncio.create_task(each.campaign()) for each in (one, two)]
    await asyncio.sleep(3)
    assert [task.done() for task in tasks].count(True) == 1
    assert [first.held, second.held].count(True) == 1
    tasks[0].cancel(), tasks[1].cancel()


async def test_a_holder_of_the_same_name_from_before_is_waited_for(looptime: LoopTimeProxy) -> None:
    lock = Lock()
    lock.put(LeaseRecord("a_0123", 15, 3, "t", "t"))
    election, write_gate = candidate(lock, "a_4567")
    await election.campaign()
    assert 15 <= looptime <= 15.1
    assert write_gate.epoch == 4


class Held:
    """A lock of a process that this one has since an instant, or not."""

    name = "here"

    def __init__(self, since: float | None) -> None:
        self._since = since

    def since(self) -> float | None:
        return self._since

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("holder", "since", "seconds"),
    [("here", 0.0, TIMING.margin), ("here", None, 15.0), ("elsewhere", 0.0, 15.0), ("", 0.0, 15.0)],
    ids=["dead", "alive", "elsewhere", "without-a-lock"],
)
async def test_a_holder_that_died_in_the_same_place_is_followed_when_its_last_writes_have_ended(
    looptime: LoopTimeProxy, holder: str, since: float | None, seconds: float
) -> None:
    lock = Lock()
    lock.put(LeaseRecord("a_0123", 15, 3, "t", "t", lock=holder))
    election, write_gate = candidate(lock, "a_4567", Held(since))
    await election.campaign()
    assert seconds <= looptime <= seconds + 0.1
    assert write_gate.epoch == 4
    assert lock.writes[-1].lock == ("" if since is None else "here")


async def test_an_epoch_that_was_seen_does_not_come_again_where_the_lease_was_deleted() -> None:
    lock = Lock()
    lock.put(LeaseRecord("b", 15, 8, "t", "t"))
    election, write_gate = candidate(lock)
    task = asyncio.create_task(election.campaign())
    await asyncio.sleep(2)
    lock.kept = None
    await task
    assert write_gate.epoch == 9


async def test_a_release_frees_the_lease_and_is_the_last_write() -> None:
    lock = Lock()
    election, write_gate = candidate(lock)
    async with reigning(election):
        pass
    await election.release()
    assert lock.kept is not None
    assert (lock.kept.record.holder, lock.kept.record.transitions) == ("", 1)
    assert not write_gate.may_write()


async def test_a_release_whose_last_renewal_was_not_answered_reads_first() -> None:
    lock = Lock()
    election, _ = candidate(lock)
    async with reigning(election):
        lock.loses_answers = True
        await asyncio.sleep(2.5)
        lock.loses_answers = False
    await election.release()
    assert lock.kept is not None
    assert lock.kept.record.holder == ""


async def test_a_release_that_cannot_be_written_ends_all_the_same(looptime: LoopTimeProxy) -> None:
    lock = Lock()
    election, _ = candidate(lock)
    async with reigning(election):
        lock.slow_s = 100.0
    began = float(looptime)
    await election.release()
    assert looptime - began <= 2.1


async def test_who_never_stood_releases_nothing() -> None:
    lock = Lock()
    theirs = lock.put(LeaseRecord("b", 15, 1, "t", "t"))
    election, _ = candidate(lock)
    await election.release()
    assert lock.kept is theirs
    assert lock.kept.record == replace(theirs.record)


async def test_a_leader_whose_lease_another_replica_wrote_stops_writing_at_its_next_renewal() -> None:
    """Such as a machine that was paused, whose clocks stood still."""
    lock = Lock()
    election, write_gate = candidate(lock)
    async with reigning(election) as reign:
        await asyncio.sleep(5)
        renewals = len(lock.writes)
        assert lock.kept is not None
        lock.put(replace(lock.kept.record, holder="b"))
        await asyncio.sleep(TIMING.retry * 1.2 + 0.2)
        assert reign.done()
        assert isinstance(reign.exception(), Deposed)
        assert not write_gate.may_write()
        assert len(lock.writes) == renewals
