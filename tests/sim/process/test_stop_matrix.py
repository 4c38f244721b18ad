"""The process is told to end in every moment of everything that it does, while its partners answer and while not."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest
from structlog.testing import capture_logs

from tests.builders.actions import observe_operations
from tests.builders.crash_points import GracefulStopper, Moment, moments_of
from tests.builders.process_site import Site
from tests.builders.replicas import replicas
from tests.builders.triggers import BYSTANDER, TRIGGERS, Trigger, afterwards, begin, monitor_invariants

pytestmark = pytest.mark.looptime

GRACE_S, SLEEP_S = 30.0, 5.0
"""The Deployment's terminationGracePeriodSeconds and its preStop, which comes out of it."""

QUICK = ("SubmitJob", "CancelJob", "EndPod", "Announce", "DrainNode", "ResumeNode", "Pods.bind", "KubeNodes.mark")

SENT_TWICE = ("UpdateJob", "NoteCancelled", "SlurmJobs.update", "Pods.annotate")
"""Where the Pod asks for something else meanwhile, which may take another job."""


def cases() -> list[object]:
    """Return every operation and moment that needs no start, with all partners up and with one silent.

    The quick ones are in the middle of an operation, with another silent partner for each in turn.
    """
    found: list[object] = []
    for operation, triggers in TRIGGERS.items():
        for which, trigger in enumerate(one for one in triggers if not one.alone):
            for moment in moments_of(operation):
                for place, silent in enumerate(("", "slurm", "kube")):
                    turn = operation in QUICK and place in {0, 1 + QUICK.index(operation) % 2}
                    quick = turn and moment is Moment.SENT and not which
                    found.append(
                        pytest.param(
                            operation,
                            trigger,
                            moment,
                            silent,
                            id=f"{operation}-{which}-{moment.name}-{silent or 'all answer'}",
                            marks=() if quick else (pytest.mark.slow,),
                        )
                    )
    return found


@pytest.mark.parametrize(("operation", "trigger", "moment", "silent"), cases())
async def test_an_end_in_good_order_in_any_moment_of_any_operation_loses_and_doubles_nothing(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    operation: str,
    trigger: Trigger,
    moment: Moment,
    silent: str,
) -> None:
    stopper = GracefulStopper(operation, moment)
    observe_operations(monkeypatch, lambda: stopper if stopper.armed else None)
    loop = asyncio.get_running_loop()
    trigger.equip(site)
    async with (
        monitor_invariants(site, trigger) as monitor,
        replicas(site, tap=stopper.tap, config=trigger.config) as both,
    ):
        first, _ = await both.led()

        def end() -> None:
            if silent:
                first.network.cut_off(silent)
            first.terminate()

        stopper.end_process = end
        await begin(site, trigger)
        monitor.job = site.jobs_of(BYSTANDER)[0].job_id
        stopper.arm()
        await trigger.cause(site)
        await site.until(lambda: stopper.fired, f"{operation}, {moment}", within=120)
        began = loop.time()
        with capture_logs() as logs, caplog.at_level(logging.ERROR):
            await first.wait()
        assert loop.time() - began <= GRACE_S - SLEEP_S
        assert first.exit_code == 0, first.error
        assert not first.tasks_left()
        assert not [line for line in logs if line["log_level"] in {"error", "critical"} or line.get("exc_info")]
        assert not caplog.records
        if silent:
            first.network.cut_off(silent, away=False)
        await both.led(other_than=first)
        await afterwards(site, trigger, monitor)
    jobs = Counter(job.name for job in site.jobs())
    if not silent and operation not in SENT_TWICE:
        assert set(jobs.values()) == {1}, jobs
