"""Nobody knows what came of a request: every write, each way not to be answered, carried out or not."""

from __future__ import annotations

import pytest

from tests.builders.actions import ADAPTERS, READS, observe_operations, waiting_methods, waiting_ports
from tests.builders.crash_points import ANSWERS, ResponseFaker
from tests.builders.process_site import Site
from tests.builders.triggers import BYSTANDER, PACE, TRIGGERS, Trigger, afterwards, begin, monitor_invariants

pytestmark = pytest.mark.looptime

WRITES = [
    operation
    for port in waiting_ports()
    for name in waiting_methods(port)
    if (operation := f"{port.__name__}.{name}") not in READS
] + ["Announce"]


def cases() -> list[object]:
    """Every write and every answer; one way for each write belongs to the quick tests, in turn."""
    found: list[object] = []
    for number, operation in enumerate(WRITES):
        for which, trigger in enumerate(TRIGGERS.get(operation, ())):
            ways = [(answer, done) for answer in ANSWERS for done in (True, False)]
            for turn, (answer, done) in enumerate(ways):
                quick = which == 0 and (turn - number * 3) % len(ways) == 0
                name = f"{operation}-{which}-{answer}-{'done' if done else 'not done'}"
                marks = () if quick else (pytest.mark.slow,)
                found.append(pytest.param(operation, trigger, answer, done, id=name, marks=marks))
    return found


def test_the_adapters_are_those_of_the_ports() -> None:
    assert set(ADAPTERS) == set(waiting_ports())


@pytest.mark.parametrize(("operation", "trigger", "answer", "done"), cases())
async def test_a_write_of_unknown_outcome_loses_and_doubles_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch, operation: str, trigger: Trigger, answer: str, done: bool
) -> None:
    site.config = PACE + trigger.config
    trigger.equip(site)
    faker = ResponseFaker(operation, answer, done=done, times=2)
    observe_operations(monkeypatch, lambda: faker)
    async with monitor_invariants(site, trigger) as monitor:
        async with site.dying(tap=faker.tap):
            await begin(site, trigger)
            monitor.job = site.jobs_of(BYSTANDER)[0].job_id
            if not trigger.alone:
                faker.arm()
                await trigger.cause(site)
                await site.until(lambda: faker.used, f"{operation}, {answer}", within=120)
                await afterwards(site, trigger, monitor)
                return
        await trigger.cause(site)
        faker.arm()
        async with site.dying(ready=False, tap=faker.tap):
            await site.until(lambda: faker.used, f"{operation}, {answer}", within=120)
            await afterwards(site, trigger, monitor)
