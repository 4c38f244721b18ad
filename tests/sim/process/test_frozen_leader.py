"""The leader stands still in the middle of an operation, another replica takes over, and the former one goes on."""

from __future__ import annotations

import asyncio

import pytest

from tests.builders.actions import observe_operations
from tests.builders.crash_points import GracefulStopper, Moment
from tests.builders.process_site import Site
from tests.builders.replicas import replicas
from tests.builders.triggers import BYSTANDER, TRIGGERS, afterwards, begin, monitor_invariants

pytestmark = pytest.mark.looptime

OPERATIONS = (
    *("SubmitJob", "CancelJob", "UpdateJob", "FollowCandidates", "NoteCancelled", "SlurmForeignPods.hold"),
    *("EndPod", "WakePod", "Pods.bind", "DrainNode", "ResumeNode"),
    *("KubeNodes.mark", "ExternalNodes.create", "ExternalNodes.delete"),
)
QUICK = ("SubmitJob", "EndPod", "Pods.bind", "ResumeNode")

LATE_S = 6.0
"""Seconds for which the new leader works alone: more than what stands between two leaders' writes."""


def cases() -> list[object]:
    """Return each operation before its request leaves, while it is out, and when it is answered. Quick: the first."""
    return [
        pytest.param(
            operation,
            moment,
            id=f"{operation}-{moment.name}",
            marks=() if operation in QUICK and moment is Moment.BEFORE else (pytest.mark.slow,),
        )
        for operation in OPERATIONS
        for moment in (Moment.BEFORE, Moment.SENT, Moment.ANSWERED)
    ]


@pytest.mark.parametrize(("operation", "moment"), cases())
async def test_a_leader_that_stood_still_while_another_was_elected_writes_nothing_more_and_ends(
    site: Site, monkeypatch: pytest.MonkeyPatch, operation: str, moment: Moment
) -> None:
    trigger = next(one for one in TRIGGERS[operation] if not one.alone)
    stopper = GracefulStopper(operation, moment)
    observe_operations(monkeypatch, lambda: stopper if stopper.armed else None)
    async with monitor_invariants(site, trigger) as monitor, replicas(site, tap=stopper.tap) as both:
        first, _ = await both.led()
        stopper.end_process = first.stop
        await begin(site, trigger)
        monitor.job = site.jobs_of(BYSTANDER)[0].job_id
        stopper.arm()
        await trigger.cause(site)
        await site.until(lambda: stopper.fired, f"{operation}, {moment}", within=120)
        await both.led(other_than=first)
        await asyncio.sleep(LATE_S)
        sent = len(_writes(first.network.writes))
        first.go_on()
        await first.wait()
        assert first.exit_code == 1
        assert _writes(first.network.writes)[sent:] == []
        await afterwards(site, trigger, monitor)


def _writes(lines: list[str]) -> list[str]:
    """Those that are no Lease's, which decides by its own version who has it."""
    return [line for line in lines if "/leases" not in line]
