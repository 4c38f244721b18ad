"""Nobody knows what came of a request: every write, each way not to be answered, carried out or not."""

from __future__ import annotations

import pytest

from tests.builders.actions import ADAPTERS, READS, name_deeds, ports_that_ask, waiting_methods
from tests.builders.crash_points import ANSWERS, Liar
from tests.builders.occasions import BYSTANDER, OCCASIONS, PACE, Occasion, afterwards, begin, promises
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

WRITES = [
    deed
    for port in ports_that_ask()
    for name in waiting_methods(port)
    if (deed := f"{port.__name__}.{name}") not in READS
] + ["Announce"]


def cases() -> list[object]:
    """Every write and every answer; one way for each write belongs to the quick tests, in turn."""
    found: list[object] = []
    for number, deed in enumerate(WRITES):
        for which, occasion in enumerate(OCCASIONS.get(deed, ())):
            ways = [(answer, done) for answer in ANSWERS for done in (True, False)]
            for turn, (answer, done) in enumerate(ways):
                quick = which == 0 and (turn - number * 3) % len(ways) == 0
                name = f"{deed}-{which}-{answer}-{'done' if done else 'not done'}"
                marks = () if quick else (pytest.mark.slow,)
                found.append(pytest.param(deed, occasion, answer, done, id=name, marks=marks))
    return found


def test_the_adapters_are_those_of_the_ports() -> None:
    assert set(ADAPTERS) == set(ports_that_ask())


@pytest.mark.parametrize(("deed", "occasion", "answer", "done"), cases())
async def test_a_write_of_unknown_outcome_loses_and_doubles_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch, deed: str, occasion: Occasion, answer: str, done: bool
) -> None:
    site.config = PACE + occasion.config
    occasion.equip(site)
    liar = Liar(deed, answer, done=done, times=2)
    name_deeds(monkeypatch, lambda: liar)
    async with promises(site, occasion) as kept:
        async with site.dying(tap=liar.tap):
            await begin(site, occasion)
            kept.job = site.jobs_of(BYSTANDER)[0].job_id
            if not occasion.alone:
                liar.arm()
                await occasion.cause(site)
                await site.until(lambda: liar.met, f"{deed}, {answer}", within=120)
                await afterwards(site, occasion, kept)
                return
        await occasion.cause(site)
        liar.arm()
        async with site.dying(ready=False, tap=liar.tap):
            await site.until(lambda: liar.met, f"{deed}, {answer}", within=120)
            await afterwards(site, occasion, kept)
