"""kube-scheduler is away for long: nothing is lost, no Pod has two jobs, and no job stays without its Pod."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender.domain.wellknown import GATE
from lab.site import PodRef
from tests.builders.stage import Stage

OFFER_TIMEOUT_S = 8
AWAY_S = 4 * OFFER_TIMEOUT_S
GATED = [{"name": GATE}]


@pytest.fixture
def impatient(stage: Stage) -> Iterator[Stage]:
    """The extender gives a grant back that nobody comes for in seconds, as in minutes by default."""
    site = stage.site
    site.reconfigure({"limits": {"allocationOfferTimeout": f"{OFFER_TIMEOUT_S}s"}})
    try:
        yield stage
    finally:
        if not site.scheduler.running:
            site.scheduler.start()
        stage.finish()
        site.reconfigure()


@pytest.mark.slow
@pytest.mark.modes("batch", "allocation", "external")
def test_grants_are_released_and_allocated_again_until_kube_scheduler_is_back(impatient: Stage) -> None:
    stage, site = impatient, impatient.site
    runs = stage.pod("runs")
    site.bound(runs)
    kept = stage.job(runs).job_id

    site.scheduler.kill()
    gated = [stage.pod(f"gated-{number}", schedulingGates=GATED) for number in range(3)]
    leaves = stage.pod("leaves", schedulingGates=GATED)
    plain = stage.pod("plain")
    for pod in (*gated, leaves):
        stage.job(pod)
    site.delete(leaves)
    for _ in range(AWAY_S):
        site.elapse(1)
        live = {pod.name: len(stage.jobs(pod)) for pod in (*gated, plain)}
        assert all(count <= 1 for count in live.values()), live
    stage.wait_job_ended(leaves)
    assert not any(site.node_of(pod) for pod in (*gated, plain))
    replaced = [pod.name for pod in gated if len(stage.made(pod)) > 1]
    assert replaced, "no job was replaced meanwhile"

    site.scheduler.start()
    for pod in (*gated, plain):
        site.bound(pod, timeout_s=120)
    assert {pod.name: len(stage.jobs(pod)) for pod in (*gated, plain)} == dict.fromkeys(
        [pod.name for pod in (*gated, plain)], 1
    )
    assert stage.job(runs).job_id == kept
    assert len(stage.jobs()) == len((runs, *gated, plain))
    assert not ending(stage, runs)


def ending(stage: Stage, pod: PodRef) -> bool:
    found = stage.site.read(pod)
    return found is None or "deletionTimestamp" in found["metadata"]
