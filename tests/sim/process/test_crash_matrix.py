"""Kill the process in every moment of every operation; the list of operations is made from the code."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum

import pytest

from simulator.cluster import ConditionTimeout
from tests.builders.actions import ADAPTERS, OPERATIONS, observe_operations, waiting_ports
from tests.builders.crash_points import Moment, ProcessKiller, moments_of
from tests.builders.process_site import Site
from tests.builders.replicas import replicas
from tests.builders.triggers import (
    BYSTANDER,
    PACE,
    TRIGGERS,
    InvariantMonitor,
    Trigger,
    afterwards,
    begin,
    monitor_invariants,
)

pytestmark = pytest.mark.looptime


ALL_MOMENTS = ("SubmitJob", "CancelJob", "EndPod", "AllocationChecker.recheck")
QUICK_FOR_TWO = ("SubmitJob", "CancelJob", "Pods.bind", "Pods.end")


class Again(StrEnum):
    """How it is started again."""

    AT_ONCE = "at once"
    LATER = "five minutes later"
    TWICE = "and killed in the same operation once more"


def cases() -> Iterator[object]:
    """Yield every operation, trigger and moment, with every way of starting again.

    Of the last, one belongs to the quick tests, in turn; and of the moments, except for some operations.
    """
    number = 0
    for row, (operation, triggers) in enumerate(TRIGGERS.items()):
        for which, trigger in enumerate(triggers):
            for place, moment in enumerate(moments_of(operation)):
                number += 1
                shown = operation in ALL_MOMENTS or place == row % len(Moment)
                for turn, again in enumerate(Again):
                    quick = turn == number % len(Again) and which == 0 and shown
                    marks = () if quick else (pytest.mark.slow,)
                    yield pytest.param(
                        operation,
                        trigger,
                        moment,
                        again,
                        id=f"{operation}-{which}-{moment.name}-{again.name}",
                        marks=marks,
                    )


class Lives:
    """Hold the observer of the running process."""

    def __init__(self) -> None:
        self.now: ProcessKiller | None = None


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> Lives:
    found = Lives()
    observe_operations(monkeypatch, lambda: found.now)
    return found


def test_there_is_a_trigger_for_everything_that_the_extender_does() -> None:
    assert set(TRIGGERS) == set(OPERATIONS)
    assert set(ADAPTERS) == set(waiting_ports())


@pytest.mark.parametrize(("operation", "trigger", "moment", "again"), list(cases()))
async def test_a_crash_in_any_moment_of_any_operation_loses_and_doubles_nothing(
    site: Site, lives: Lives, operation: str, trigger: Trigger, moment: Moment, again: Again
) -> None:
    site.config = PACE + trigger.config
    trigger.equip(site)
    killer = ProcessKiller(operation, moment)
    async with monitor_invariants(site, trigger) as monitor:
        await until_killed(site, lives, trigger, killer, monitor)
        if again is Again.LATER:
            await asyncio.sleep(300)
        if again is Again.TWICE:
            await live(site, lives, killer, within=60)
        lives.now = None
        async with site.running():
            await afterwards(site, trigger, monitor)


def cases_of_two() -> list[object]:
    """Return every operation and moment that needs no start; one moment in the middle of four operations is quick."""
    return [
        pytest.param(
            operation,
            trigger,
            moment,
            id=f"{operation}-{which}-{moment.name}",
            marks=() if moment is Moment.SENT and not which and operation in QUICK_FOR_TWO else (pytest.mark.slow,),
        )
        for operation, triggers in TRIGGERS.items()
        for which, trigger in enumerate(triggers)
        for moment in moments_of(operation)
        if not trigger.alone
    ]


@pytest.mark.parametrize(("operation", "trigger", "moment"), cases_of_two())
async def test_another_replica_continues_where_a_leader_was_killed_in_an_action(
    site: Site, lives: Lives, operation: str, trigger: Trigger, moment: Moment
) -> None:
    killer = ProcessKiller(operation, moment)
    trigger.equip(site)
    async with (
        monitor_invariants(site, trigger) as monitor,
        replicas(site, tap=killer.tap, config=trigger.config) as both,
    ):
        first, _ = await both.led()
        killer.end_process, lives.now = first.kill, killer
        await begin(site, trigger)
        monitor.job = site.jobs_of(BYSTANDER)[0].job_id
        killer.arm()
        await trigger.cause(site)
        await site.until(lambda: killer.fired, f"{operation}, {moment}", within=120)
        lives.now = None
        await both.led(other_than=first)
        await afterwards(site, trigger, monitor)


async def until_killed(
    site: Site, lives: Lives, trigger: Trigger, killer: ProcessKiller, monitor: InvariantMonitor
) -> None:
    """Run an extender until it is killed."""
    async with site.dying() if trigger.alone else site.dying(tap=killer.tap) as die:
        if not trigger.alone:
            killer.end_process, lives.now = die, killer
        await begin(site, trigger)
        monitor.job = site.jobs_of(BYSTANDER)[0].job_id
        if not trigger.alone:
            killer.arm()
            await trigger.cause(site)
            await site.until(lambda: killer.fired, f"{killer.operation}, {killer.moment}", within=120)
    if trigger.alone:
        await trigger.cause(site)
        assert await live(site, lives, killer, within=120), f"no {killer.operation}, {killer.moment}"


async def live(site: Site, lives: Lives, killer: ProcessKiller, *, within: float) -> bool:
    """Run an extender until it is killed, or for `within` seconds; return whether it was killed."""
    async with site.dying(ready=False, tap=killer.tap) as die:
        killer.end_process, lives.now = die, killer
        killer.arm()
        with suppress(ConditionTimeout):
            await site.until(lambda: killer.fired, "the kill", within)
    return killer.fired
