"""What Slurm is asked for a guest, and what its answers mean."""

from __future__ import annotations

import pytest

from extender.domain.amount import Amount
from extender.domain.guests.guest import Guest, GuestOptions, GuestOrder
from extender.domain.ports import Held
from extender.slurm.guests import Guests, describe_guest
from extender.slurm.jobs import Jobs
from simulator.slurm.faults import SlurmFault
from slurmclient import INFINITE
from tests.builders.loop_clock import LoopClock
from tests.builders.slurm_sites import sim_site

GUEST = Guest("uid-web", "team/web", "node-1", Amount(2, 512, {"gpu": 1}))


def order(**fields: object) -> GuestOrder:
    given = {"name": "team/web-0", "mark": "a mark", "options": GuestOptions(), "immediate": True} | fields
    return GuestOrder(GUEST, **given)  # type: ignore[arg-type]


def test_a_guest_asks_for_its_node_without_a_limit_and_is_never_started_again() -> None:
    asked = describe_guest(order(options=GuestOptions("guests", "q", "a", "r", 7)))
    assert asked.required_nodes == ("node-1",)
    assert (asked.cpus_per_task, asked.memory_per_node_mb, asked.tres_per_node) == (2, 512, "gres/gpu:1")
    assert (asked.time_limit_minutes, asked.requeue, asked.external, asked.script) == (INFINITE, False, True, None)
    assert (asked.partition, asked.qos, asked.account, asked.reservation, asked.priority) == (
        "guests",
        "q",
        "a",
        "r",
        7,
    )
    assert asked.extra == asked.admin_comment == "a mark"
    assert describe_guest(order(minutes=60)).time_limit_minutes == 60


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("fault", "number", "result"),
    [
        (SlurmFault.REFUSE, 2016, Held.NO_ROOM),
        (SlurmFault.REFUSE, 2013, Held.NO_ROOM),
        (SlurmFault.REFUSE, 2068, Held.NO_ROOM),
        (SlurmFault.REFUSE, 2050, Held.REFUSED),
        (SlurmFault.REFUSE, 2000, Held.REFUSED),
        (SlurmFault.LOSE_ANSWER, 0, Held.UNKNOWN),
    ],
)
async def test_answers_say_whether_there_is_room_or_none_ever_or_nobody_knows(
    fault: SlurmFault, number: int, result: Held
) -> None:
    async with sim_site("26.05.5") as site, site.client() as client:
        await client.negotiate()
        site.sim.restd.faults.add(fault, "POST", "/job/allocate", number=number, times=1)
        clock = LoopClock()
        answer = await Guests(client, Jobs(client, clock), clock).hold(order())
        assert answer.result is result, answer
