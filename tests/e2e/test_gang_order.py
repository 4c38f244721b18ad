"""Gangs wait in Slurm's queue as one job each: nothing blocks forever, and Slurm's order holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.pods import RUN_FOR
from lab.site import PodRef
from tests.builders.changed_nodes import changed
from tests.builders.stage import Stage
from tests.builders.staged_gangs import all_bound, assert_none_bound, gang, nodes_of

SMALL = "e2e/small-cluster"
WHOLE_NODE = 64
NODES, MORE_THAN_HALF = 4, 3
PRIORITY, TIME_LIMIT = "slurm-extender.io/priority", "slurm-extender.io/time-limit"
HIGH, MIDDLE, LOW = "900", "500", "100"
SHORT, LONG = "60", "600"
"""Minutes. With limits backfill plans the gang, and starts nothing that would end after that."""

PASSES_S = 7.0
"""In the lab Slurm's backfill looks every 5 s."""

ONLY_THERE: dict[str, Any] = {"nodeSelector": {SMALL: "x"}}


@pytest.fixture
def few(stage: Stage) -> Iterator[Stage]:
    """A stage on which these Pods may use four nodes."""
    label = {"metadata": {"labels": {SMALL: "x"}}}
    with changed(stage.site, dict.fromkeys(stage.family.nodes[:NODES], label)):
        yield stage
        stage.finish()


@pytest.mark.modes("batch", "allocation", "external", slow=("24.11", "allocation", "external"))
def test_of_two_gangs_that_each_need_more_than_half_of_the_nodes_one_runs_after_the_other(few: Stage) -> None:
    site = few.site
    gangs = {
        name: gang(few, name, MORE_THAN_HALF, cpus=WHOLE_NODE, annotations={RUN_FOR: "2s"}, **ONLY_THERE)
        for name in ("one", "two")
    }
    seen: set[str] = set()

    def both_ran() -> bool:
        there = {pod["metadata"]["name"]: pod for pod in site.pods(few.namespace)}
        active = [
            name
            for name, pods in gangs.items()
            if any(
                there[pod.name]["spec"].get("nodeName") and there[pod.name]["status"].get("phase") != "Succeeded"
                for pod in pods
            )
        ]
        assert len(active) < 2, "both gangs hold nodes at one time"
        seen.update(active)
        return all(pod["status"].get("phase") == "Succeeded" for pod in there.values())

    site.wait_for(both_ran, "every member of both gangs has succeeded", timeout_s=90, every_s=0.05)
    assert seen == set(gangs)
    assert len(few.made()) == len(gangs), "each gang had one job"


@pytest.mark.slow
@pytest.mark.modes("batch", "allocation", "external")
def test_a_gang_starts_after_single_pods_of_higher_priority_and_before_those_of_lower(few: Stage) -> None:
    site, family = few.site, few.family
    native = [few.submit(family.main, cpus=WHOLE_NODE, nodes=[node]) for node in family.nodes[:NODES]]
    for job_id in native:
        few.running(job_id)
    # Submitted in the opposite order.
    low = [single(few, f"low-{number}", LOW) for number in range(2)]
    site.wait_for(lambda: len(few.jobs()) == 2, "Slurm has the jobs of low priority")
    said = {PRIORITY: MIDDLE, TIME_LIMIT: SHORT}
    ring = gang(few, "ring", NODES, cpus=WHOLE_NODE, annotations=said, **ONLY_THERE)
    site.wait_for(lambda: len(few.jobs()) == 3, "Slurm has the job of the gang")
    high = [single(few, f"high-{number}", HIGH) for number in range(2)]
    site.wait_for(lambda: len(few.jobs()) == 5, "Slurm has the jobs of high priority")

    for job_id in native[:2]:
        few.cancel(job_id)
    all_bound(few, high)
    for job_id in native[2:]:
        few.cancel(job_id)
    # Two nodes are free and the gang needs four. A Pod of low priority that got one would delay the gang.
    assert_none_bound(few, [*ring, *low], PASSES_S)
    for pod in high:
        site.delete(pod)
    all_bound(few, ring)
    assert not any(nodes_of(few, low))
    assert {job.state for pod in low for job in few.jobs(pod)} == {"PENDING"}
    for pod in ring:
        site.delete(pod)
    all_bound(few, low)
    assert len(few.made()) == 5, "each had one job"


def single(stage: Stage, name: str, priority: str) -> PodRef:
    said = {PRIORITY: priority, TIME_LIMIT: LONG if priority == LOW else SHORT}
    return stage.pod(name, cpus=WHOLE_NODE, annotations=said, **ONLY_THERE)
