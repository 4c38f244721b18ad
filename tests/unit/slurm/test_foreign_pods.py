"""What Slurm is asked for a foreign Pod, and what its answers mean."""

from __future__ import annotations

import pytest

from extender.domain.amount import Amount
from extender.domain.foreign_pods.foreign_pod import ForeignPod, ForeignPodOptions, ForeignPodOrder
from extender.domain.ports import ForeignPodJobResult
from extender.slurm.foreign_pods import SlurmrestdForeignPods, describe_foreign_pod
from extender.slurm.jobs import SlurmrestdJobs
from simulator.slurm.faults import SlurmFault
from slurmclient import INFINITE
from tests.builders.loop_clock import LoopClock
from tests.builders.slurm_sites import sim_site

FOREIGN_POD = ForeignPod("uid-web", "team/web", "node-1", Amount(2, 512, {"gpu": 1}))


def order(**fields: object) -> ForeignPodOrder:
    given = {"name": "team/web-0", "mark": "a mark", "options": ForeignPodOptions(), "immediate": True} | fields
    return ForeignPodOrder(FOREIGN_POD, **given)  # type: ignore[arg-type]


def test_a_foreign_pod_requests_its_node_without_a_limit_and_is_never_started_again() -> None:
    description = describe_foreign_pod(order(options=ForeignPodOptions("foreign", "q", "a", "r", 7)))
    assert description.required_nodes == ("node-1",)
    assert (description.cpus_per_task, description.memory_per_node_mb, description.tres_per_node) == (
        2,
        512,
        "gres/gpu:1",
    )
    assert (description.time_limit_minutes, description.requeue, description.external, description.script) == (
        INFINITE,
        False,
        True,
        None,
    )
    assert (
        description.partition,
        description.qos,
        description.account,
        description.reservation,
        description.priority,
    ) == (
        "foreign",
        "q",
        "a",
        "r",
        7,
    )
    assert description.extra == description.admin_comment == "a mark"
    assert describe_foreign_pod(order(minutes=60)).time_limit_minutes == 60


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("fault", "number", "result"),
    [
        (SlurmFault.REFUSE, 2016, ForeignPodJobResult.NO_ROOM),
        (SlurmFault.REFUSE, 2013, ForeignPodJobResult.NO_ROOM),
        (SlurmFault.REFUSE, 2068, ForeignPodJobResult.NO_ROOM),
        (SlurmFault.REFUSE, 2050, ForeignPodJobResult.REFUSED),
        (SlurmFault.REFUSE, 2000, ForeignPodJobResult.REFUSED),
        (SlurmFault.LOSE_ANSWER, 0, ForeignPodJobResult.UNKNOWN),
    ],
)
async def test_answers_say_whether_there_is_room_or_none_ever_or_it_is_unknown(
    fault: SlurmFault, number: int, result: ForeignPodJobResult
) -> None:
    async with sim_site("26.05.5") as site, site.client() as client:
        await client.negotiate()
        site.sim.restd.faults.add(fault, "POST", "/job/allocate", number=number, times=1)
        clock = LoopClock()
        answer = await SlurmrestdForeignPods(client, SlurmrestdJobs(client, clock), clock).hold(order())
        assert answer.result is result, answer
