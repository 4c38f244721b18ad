"""The way back to another scheduler, as docs/migrate.md says it; a stock kube-scheduler stands in for the peer's."""

from __future__ import annotations

import pytest

from extender.domain.wellknown import GATE
from lab.scheduler import DEFAULT_CONFIG
from tests.builders.stage import Stage

THEIRS = DEFAULT_CONFIG + "profiles: [{schedulerName: slurm}]\n"
"""Another program under the name that the Pods have."""


@pytest.mark.slow
@pytest.mark.modes("batch", "external")
def test_the_other_scheduler_takes_what_waits_and_what_runs_continues(stage: Stage) -> None:
    site, tiny = stage.site, stage.family.tiny
    runs = stage.pod("runs", partition=tiny, cpus=4)
    node = site.bound(runs)
    job = stage.job(runs)
    waits = [
        stage.pod("gated", partition=tiny, cpus=4, schedulingGates=[{"name": GATE}]),
        stage.pod("waits", partition=tiny, cpus=4),
    ]
    for pod in waits:
        stage.job(pod)

    site.stop_extender()
    site.scheduler.stop()
    try:
        code, said = site.uninstall()
        assert code == 0, said
        theirs = site.kube.start_scheduler(THEIRS, name="theirs")
        try:
            for pod in waits:
                assert site.bound(pod, timeout_s=60)
                assert stage.jobs(pod) == []
            assert site.node_of(runs) == node
            assert [one.job_id for one in stage.jobs(runs)] == [job.job_id]
            site.delete(runs)
            site.gone(runs)
            assert [one.job_id for one in stage.jobs(runs)] == [job.job_id], "nobody ends it yet"
            code, said = site.uninstall()
            assert code == 0, said
            stage.wait_job_ended(runs)
        finally:
            theirs.stop()
    finally:
        site.scheduler.start()
        site.start_extender()
    for pod in waits:
        assert site.event(pod, "BoundWithoutSlurm")
        found = site.read(pod)
        assert found is not None
        assert "deletionTimestamp" not in found["metadata"]
