"""The process is told to end in every moment of everything that it does, while its partners answer and while not."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest
from structlog.testing import capture_logs

from tests.builders.actions import name_deeds
from tests.builders.crash_points import Moment, Orderly, moments_of
from tests.builders.occasions import BYSTANDER, OCCASIONS, Occasion, afterwards, begin, promises
from tests.builders.process_site import Site
from tests.builders.replicas import replicas

pytestmark = pytest.mark.looptime

GRACE_S, SLEEP_S = 30.0, 5.0
"""The Deployment's terminationGracePeriodSeconds and its preStop, which comes out of it."""

QUICK = ("SubmitJob", "CancelJob", "EndPod", "Announce", "DrainNode", "ResumeNode", "Pods.bind", "KubeNodes.mark")

ASKS_TWICE = ("UpdateJob", "NoteCancelled", "SlurmJobs.update", "Pods.annotate")
"""Where the Pod asks for something else meanwhile, which may take another job."""


def cases() -> list[object]:
    """Every deed and moment but those that need a start, with everybody there and with one partner silent.

    Of the quick ones it is the middle of a deed, and another silence for each in turn.
    """
    found: list[object] = []
    for deed, occasions in OCCASIONS.items():
        for which, occasion in enumerate(one for one in occasions if not one.alone):
            for moment in moments_of(deed):
                for place, silent in enumerate(("", "slurm", "kube")):
                    turn = deed in QUICK and place in {0, 1 + QUICK.index(deed) % 2}
                    quick = turn and moment is Moment.SENT and not which
                    found.append(
                        pytest.param(
                            deed,
                            occasion,
                            moment,
                            silent,
                            id=f"{deed}-{which}-{moment.name}-{silent or 'all answer'}",
                            marks=() if quick else (pytest.mark.slow,),
                        )
                    )
    return found


@pytest.mark.parametrize(("deed", "occasion", "moment", "silent"), cases())
async def test_an_end_in_good_order_in_any_moment_of_any_deed_loses_and_doubles_nothing(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    deed: str,
    occasion: Occasion,
    moment: Moment,
    silent: str,
) -> None:
    orderly = Orderly(deed, moment)
    name_deeds(monkeypatch, lambda: orderly if orderly.armed else None)
    loop = asyncio.get_running_loop()
    occasion.equip(site)
    async with promises(site, occasion) as kept, replicas(site, tap=orderly.tap, config=occasion.config) as both:
        first, _ = await both.led()

        def end() -> None:
            if silent:
                first.network.cut_off(silent)
            first.terminate()

        orderly.die = end
        await begin(site, occasion)
        kept.job = site.jobs_of(BYSTANDER)[0].job_id
        orderly.arm()
        await occasion.cause(site)
        await site.until(lambda: orderly.struck, f"{deed}, {moment}", within=120)
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
        await afterwards(site, occasion, kept)
    jobs = Counter(job.name for job in site.jobs())
    if not silent and deed not in ASKS_TWICE:
        assert set(jobs.values()) == {1}, jobs
