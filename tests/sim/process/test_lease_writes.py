"""The Lease is taken, renewed and released while nobody knows what comes of that, or the replica dies in it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum

import pytest

from extender.domain.election import LONGEST_LEASE_S, ElectionTiming
from simulator.kube.resources import LEASES
from simulator.kube.storage import ObjectKey
from tests.builders.actions import LEASE, OperationObserver, observe_operations
from tests.builders.crash_points import ANSWERS, Moment, ProcessKiller, ResponseFaker
from tests.builders.process_site import Site
from tests.builders.replicas import Replica, Replicas

pytestmark = pytest.mark.looptime
LEASE_S, SLACK_S = ElectionTiming().lease, 2.0


class Write(StrEnum):
    """Which of them."""

    TAKEN = "taken"
    RENEWED = "renewed"
    RELEASED = "released"


@asynccontextmanager
async def never_two(both: Replicas) -> AsyncIterator[None]:
    """Watch that no two may write at a time."""
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, sum(one.leads for one in both.processes))
            await asyncio.sleep(0.05)

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()
        for process in both.processes:
            process.kill()
            await process.wait()
    assert most == 1


async def bring_about(both: Replicas, first: Replica, write: Write, arm: Callable[[], None]) -> None:
    """Let the first replica come to that write; `arm` is called before it."""
    if write is Write.TAKEN:
        arm()
        return
    assert (await both.led())[0] is first
    both.site.kube.add_pod("before", cpu="1")
    await both.site.bound("before")
    arm()
    if write is Write.RELEASED:
        first.terminate()


async def all_is_well(both: Replicas) -> None:
    """A replica leads, and every Pod runs on the one job that was ever made for it."""
    site = both.site
    await asyncio.sleep(10)  # until when a leader has to be able to renew
    await site.until(lambda: any(one.leads for one in both.processes), "a leader", within=LEASE_S + SLACK_S)
    site.kube.add_pod("after", cpu="1")
    await site.bound("after", within=60)
    await asyncio.sleep(10)
    names = [pod for pod in ("before", "after") if site.kube.pod(pod)]
    assert [len(site.jobs_of(name)) for name in names] == [1] * len(names)
    assert len([job for job in site.jobs() if job.name.startswith("default/")]) == len(names)


def lies() -> list[object]:
    """Every answer; of each write one belongs to the quick tests, in turn."""
    ways = [(answer, done) for answer in ANSWERS for done in (True, False)]
    return [
        pytest.param(
            write,
            answer,
            done,
            id=f"{write}-{answer}-{'done' if done else 'not done'}",
            marks=() if turn == number * 5 else (pytest.mark.slow,),
        )
        for number, write in enumerate(Write)
        for turn, (answer, done) in enumerate(ways)
    ]


@pytest.mark.parametrize(("write", "answer", "done"), lies())
async def test_a_lease_with_an_unknown_holder_makes_no_second_leader(
    site: Site, monkeypatch: pytest.MonkeyPatch, write: Write, answer: str, done: bool
) -> None:
    faker, both = ResponseFaker(LEASE, answer, done=done, times=2), Replicas(site)
    observe_operations(monkeypatch, lambda: faker)
    first = both.start(faker.tap)
    async with never_two(both):
        if write is not Write.TAKEN:
            await both.led()
            both.start()
        await bring_about(both, first, write, faker.arm)
        await site.until(lambda: faker.used, "that write", within=60, every=0.01)
        if write is Write.TAKEN:
            both.start()
        if write is Write.RELEASED:
            _, seconds = await both.led(other_than=first)
            assert seconds <= SLACK_S + (0.0 if done else LEASE_S)
            await first.wait()
            assert first.exit_code == 0
        await all_is_well(both)


def deaths() -> list[object]:
    return [
        pytest.param(write, moment, id=f"{write}-{moment.name}", marks=() if row == column else (pytest.mark.slow,))
        for row, write in enumerate(Write)
        for column, moment in enumerate(Moment)
    ]


@pytest.mark.parametrize(("write", "moment"), deaths())
async def test_a_replica_that_dies_at_its_lease_is_followed_in_time(
    site: Site, monkeypatch: pytest.MonkeyPatch, write: Write, moment: Moment
) -> None:
    killer, both = ProcessKiller(LEASE, moment), Replicas(site)
    armed: list[OperationObserver] = []
    observe_operations(monkeypatch, lambda: armed[0] if armed and not killer.fired else None)
    first = both.start(killer.tap)
    killer.end_process = first.kill

    def arm() -> None:
        killer.arm()
        armed.append(killer)

    async with never_two(both):
        if write is not Write.TAKEN:
            await both.led()
            both.start()
        await bring_about(both, first, write, arm)
        await site.until(lambda: killer.fired, "the kill", within=60, every=0.01)
        if write is Write.TAKEN:
            both.start()
        _, seconds = await both.led(other_than=first)
        assert seconds <= LEASE_S + SLACK_S
        await all_is_well(both)


def edit_lease(both: Replicas, **fields: object) -> None:
    """Write fields of the Lease as a client that has its token."""
    storage, key = both.site.kube.storage, ObjectKey(LEASES, "slurm-extender", "slurm-extender")
    lease = storage.get(key)
    assert lease is not None
    storage.put(key, lease | {"spec": lease["spec"] | fields})


@pytest.mark.parametrize("duration", [2**31 - 1, math.inf, math.nan, -5], ids=str)
async def test_an_edited_duration_stops_the_replicas_for_no_longer_than_the_longest_lease(
    site: Site, duration: float
) -> None:
    both = Replicas(site)
    first = both.start()
    async with never_two(both):
        await both.led()
        both.start()
        edit_lease(both, holderIdentity="nobody", leaseDurationSeconds=duration)
        await first.wait()
        _, seconds = await both.led(within=LONGEST_LEASE_S + SLACK_S)
        assert seconds > LONGEST_LEASE_S - 10
        await all_is_well(both)


async def test_a_leader_continues_and_corrects_a_duration_that_another_client_wrote(site: Site) -> None:
    both = Replicas(site)
    first = both.start()
    async with never_two(both):
        await both.led()
        both.start()
        edit_lease(both, leaseDurationSeconds=2**31 - 1)
        await asyncio.sleep(5)
        assert both.lease["leaseDurationSeconds"] == LEASE_S
        first.kill()
        _, seconds = await both.led(other_than=first)
        assert seconds <= LEASE_S + SLACK_S


async def test_a_leader_with_the_longest_lease_is_waited_for_by_a_replica_with_a_short_one(site: Site) -> None:
    both = Replicas(site)
    longer = f"leaderElection: {{enabled: true, leaseDuration: {LONGEST_LEASE_S:g}s, renewDeadline: 170s}}\n"
    first = both.start(edit=lambda config: config + longer)
    async with never_two(both):
        await both.led()
        both.start()
        await asyncio.sleep(5)
        first.network.cut_off("kube")
        _, seconds = await both.led(other_than=first, within=LONGEST_LEASE_S + SLACK_S)
        assert seconds > 170.0
