"""Operators are told whether new Pods arrive behind the scheduling gate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.controllers.gate_arrivals import GateArrivals
from extender.domain.views import PodView
from extender.domain.wellknown import GATE
from tests.builders.pod_views import a_pod
from tests.builders.services import StillClock

CLOCK = StillClock()
NEW = CLOCK.wall() + 5
GATED = replace(a_pod(scheduler_name="slurm"), gates=(GATE,), generation=1, created_at=NEW, phase="Pending")
UNGATED = replace(GATED, gates=())


def arrivals(*pods: PodView) -> GateArrivals:
    found = GateArrivals(["slurm"], CLOCK)
    for pod in pods:
        found.pod_changed(None, pod)
    return found


def test_before_a_pod_arrives_nothing_is_known() -> None:
    assert arrivals().gated is None
    assert "not known yet" in arrivals().text


def test_the_newest_pod_decides() -> None:
    assert arrivals(UNGATED, replace(GATED, created_at=NEW + 1)).gated is True
    assert arrivals(GATED, replace(UNGATED, created_at=NEW + 1)).gated is False
    assert arrivals(GATED, replace(UNGATED, created_at=NEW - 1)).gated is True


def test_a_pod_without_the_gate_is_reported_with_what_helps_and_without_its_name() -> None:
    text = arrivals(UNGATED).text
    assert UNGATED.full_name not in text
    assert "slurm-extender doctor" in text


def test_a_pod_whose_gate_was_removed_says_nothing() -> None:
    assert arrivals(replace(UNGATED, generation=2)).gated is None
    found = arrivals(GATED)
    found.pod_changed(GATED, replace(UNGATED, generation=2))
    assert found.gated is True


def test_where_pods_have_no_generation_only_those_count_that_are_created_while_it_runs() -> None:
    assert arrivals(replace(UNGATED, generation=0)).gated is False
    assert arrivals(replace(UNGATED, generation=0, created_at=CLOCK.wall() - 60)).gated is None


@pytest.mark.parametrize(
    "pod",
    [
        replace(UNGATED, scheduler_name="default-scheduler"),
        replace(UNGATED, node_name="n1"),
        replace(UNGATED, deleted_at=NEW),
        replace(UNGATED, phase="Succeeded"),
    ],
    ids=["other-scheduler", "placed", "ending", "finished"],
)
def test_pods_that_do_not_wait_for_slurm_say_nothing(pod: PodView) -> None:
    assert arrivals(pod).gated is None
