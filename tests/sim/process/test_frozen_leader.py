"""The leader stands still in the middle of a deed, another replica takes over, and the former one goes on."""

from __future__ import annotations

import asyncio

import pytest

from tests.builders.actions import name_deeds
from tests.builders.crash_points import Moment, Orderly
from tests.builders.occasions import BYSTANDER, OCCASIONS, afterwards, begin, promises
from tests.builders.process_site import Site
from tests.builders.replicas import replicas

pytestmark = pytest.mark.looptime

DEEDS = (
    *("SubmitJob", "CancelJob", "UpdateJob", "FollowCandidates", "NoteCancelled", "SlurmForeignPods.hold"),
    *("EndPod", "WakePod", "Pods.bind", "DrainNode", "ResumeNode"),
    *("KubeNodes.mark", "ExternalNodes.create", "ExternalNodes.delete"),
)
QUICK = ("SubmitJob", "EndPod", "Pods.bind", "ResumeNode")

LATE_S = 6.0
"""Seconds for which the new leader works alone: more than what stands between two leaders' writes."""


def cases() -> list[object]:
    """Before a deed's request leaves, while it is out, and when it is answered. Quick: the request that never left."""
    return [
        pytest.param(
            deed,
            moment,
            id=f"{deed}-{moment.name}",
            marks=() if deed in QUICK and moment is Moment.BEFORE else (pytest.mark.slow,),
        )
        for deed in DEEDS
        for moment in (Moment.BEFORE, Moment.SENT, Moment.ANSWERED)
    ]


@pytest.mark.parametrize(("deed", "moment"), cases())
async def test_a_leader_that_stood_still_while_another_took_over_writes_nothing_more_and_ends(
    site: Site, monkeypatch: pytest.MonkeyPatch, deed: str, moment: Moment
) -> None:
    occasion = next(one for one in OCCASIONS[deed] if not one.alone)
    orderly = Orderly(deed, moment)
    name_deeds(monkeypatch, lambda: orderly if orderly.armed else None)
    async with promises(site, occasion) as kept, replicas(site, tap=orderly.tap) as both:
        first, _ = await both.led()
        orderly.die = first.stop
        await begin(site, occasion)
        kept.job = site.jobs_of(BYSTANDER)[0].job_id
        orderly.arm()
        await occasion.cause(site)
        await site.until(lambda: orderly.struck, f"{deed}, {moment}", within=120)
        await both.led(other_than=first)
        await asyncio.sleep(LATE_S)
        sent = len(_writes(first.network.writes))
        first.go_on()
        await first.wait()
        assert first.exit_code == 1
        assert _writes(first.network.writes)[sent:] == []
        await afterwards(site, occasion, kept)


def _writes(lines: list[str]) -> list[str]:
    """Those that are no Lease's, which decides by its own version who has it."""
    return [line for line in lines if "/leases" not in line]
