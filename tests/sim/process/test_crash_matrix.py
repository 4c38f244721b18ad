"""The process is killed in every moment of everything that it does; the list of deeds is made from the code."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum

import pytest

from simulator.cluster import ConditionTimeout
from tests.builders.actions import ADAPTERS, DEEDS, name_deeds, ports_that_ask
from tests.builders.crash_points import Killer, Moment, moments_of
from tests.builders.occasions import (
    BYSTANDER,
    OCCASIONS,
    PACE,
    Occasion,
    Promises,
    afterwards,
    begin,
    promises,
)
from tests.builders.process_site import Site
from tests.builders.replicas import replicas

pytestmark = pytest.mark.looptime


ALL_MOMENTS = ("SubmitJob", "CancelJob", "EndPod", "AllocationChecker.recheck")
QUICK_FOR_TWO = ("SubmitJob", "CancelJob", "Pods.bind", "Pods.end")


class Again(StrEnum):
    """How it is started again."""

    AT_ONCE = "at once"
    LATER = "five minutes later"
    TWICE = "and killed in the same deed once more"


def cases() -> Iterator[object]:
    """Every deed, occasion and moment, and every way of starting again.

    Of the last, one belongs to the quick tests, in turn; and of the moments, but for some deeds.
    """
    number = 0
    for row, (deed, occasions) in enumerate(OCCASIONS.items()):
        for which, occasion in enumerate(occasions):
            for place, moment in enumerate(moments_of(deed)):
                number += 1
                shown = deed in ALL_MOMENTS or place == row % len(Moment)
                for turn, again in enumerate(Again):
                    quick = turn == number % len(Again) and which == 0 and shown
                    marks = () if quick else (pytest.mark.slow,)
                    yield pytest.param(
                        deed, occasion, moment, again, id=f"{deed}-{which}-{moment.name}-{again.name}", marks=marks
                    )


class Lives:
    """The witness of the life that is led now."""

    def __init__(self) -> None:
        self.now: Killer | None = None


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> Lives:
    found = Lives()
    name_deeds(monkeypatch, lambda: found.now)
    return found


def test_there_is_an_occasion_for_everything_that_the_extender_does() -> None:
    assert set(OCCASIONS) == set(DEEDS)
    assert set(ADAPTERS) == set(ports_that_ask())


@pytest.mark.parametrize(("deed", "occasion", "moment", "again"), list(cases()))
async def test_a_crash_in_any_moment_of_any_deed_loses_and_doubles_nothing(
    site: Site, lives: Lives, deed: str, occasion: Occasion, moment: Moment, again: Again
) -> None:
    site.config = PACE + occasion.config
    occasion.equip(site)
    killer = Killer(deed, moment)
    async with promises(site, occasion) as kept:
        await until_killed(site, lives, occasion, killer, kept)
        if again is Again.LATER:
            await asyncio.sleep(300)
        if again is Again.TWICE:
            await live(site, lives, killer, within=60)
        lives.now = None
        async with site.running():
            await afterwards(site, occasion, kept)


def cases_of_two() -> list[object]:
    """Every deed and moment but those that need a start; one moment in the middle of four deeds is quick."""
    return [
        pytest.param(
            deed,
            occasion,
            moment,
            id=f"{deed}-{which}-{moment.name}",
            marks=() if moment is Moment.SENT and not which and deed in QUICK_FOR_TWO else (pytest.mark.slow,),
        )
        for deed, occasions in OCCASIONS.items()
        for which, occasion in enumerate(occasions)
        for moment in moments_of(deed)
        if not occasion.alone
    ]


@pytest.mark.parametrize(("deed", "occasion", "moment"), cases_of_two())
async def test_another_replica_continues_where_a_leader_was_killed_in_an_action(
    site: Site, lives: Lives, deed: str, occasion: Occasion, moment: Moment
) -> None:
    killer = Killer(deed, moment)
    occasion.equip(site)
    async with promises(site, occasion) as kept, replicas(site, tap=killer.tap, config=occasion.config) as both:
        first, _ = await both.led()
        killer.die, lives.now = first.kill, killer
        await begin(site, occasion)
        kept.job = site.jobs_of(BYSTANDER)[0].job_id
        killer.arm()
        await occasion.cause(site)
        await site.until(lambda: killer.struck, f"{deed}, {moment}", within=120)
        lives.now = None
        await both.led(other_than=first)
        await afterwards(site, occasion, kept)


async def until_killed(site: Site, lives: Lives, occasion: Occasion, killer: Killer, kept: Promises) -> None:
    """Live until the blow falls."""
    async with site.dying() if occasion.alone else site.dying(tap=killer.tap) as die:
        if not occasion.alone:
            killer.die, lives.now = die, killer
        await begin(site, occasion)
        kept.job = site.jobs_of(BYSTANDER)[0].job_id
        if not occasion.alone:
            killer.arm()
            await occasion.cause(site)
            await site.until(lambda: killer.struck, f"{killer.deed}, {killer.moment}", within=120)
    if occasion.alone:
        await occasion.cause(site)
        assert await live(site, lives, killer, within=120), f"no {killer.deed}, {killer.moment}"


async def live(site: Site, lives: Lives, killer: Killer, *, within: float) -> bool:
    """A life that ends in the blow, or after so many seconds without one; whether it fell."""
    async with site.dying(ready=False, tap=killer.tap) as die:
        killer.die, lives.now = die, killer
        killer.arm()
        with suppress(ConditionTimeout):
            await site.until(lambda: killer.struck, "the blow", within)
    return killer.struck
