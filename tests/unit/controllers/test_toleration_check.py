"""Pods of ours that cannot come to any Node of Slurm are told, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.controllers.toleration_check import TolerationCheck
from extender.domain.ports import Announcement
from extender.domain.views import PodView, Taint, Toleration
from extender.domain.wellknown import MANAGED_TAINT
from tests.builders.pod_views import a_pod

TAINT = Taint(MANAGED_TAINT, "NoSchedule", "slurm")
OURS = a_pod(scheduler_name="slurm")


class Told:
    def __init__(self) -> None:
        self.said: list[Announcement] = []

    def announce(self, announcement: Announcement) -> None:
        self.said.append(announcement)


def announcements(old: PodView | None, new: PodView | None, *taints: Taint) -> int:
    announcer = Told()
    TolerationCheck(announcer, ["slurm"], taints).pod_changed(old, new)
    return len(announcer.said)


def test_a_waiting_pod_without_the_toleration_is_reported() -> None:
    assert announcements(None, OURS, TAINT) == 1
    assert announcements(OURS, replace(OURS, resource_version="2"), TAINT) == 0
    assert announcements(OURS, replace(OURS, tolerations=(Toleration(key="x", operator="Exists"),)), TAINT) == 1


@pytest.mark.parametrize(
    "pod",
    [
        replace(OURS, tolerations=(Toleration(key=MANAGED_TAINT, operator="Exists"),)),
        replace(OURS, scheduler_name="default-scheduler"),
        replace(OURS, node_name="k1"),
        replace(OURS, deleted_at=1.0),
    ],
)
def test_no_other_pod_is_reported(pod: PodView) -> None:
    assert announcements(None, pod, TAINT) == 0


def test_where_there_is_no_taint_no_pod_is_reported() -> None:
    assert announcements(None, OURS) == 0
    assert announcements(OURS, None, TAINT) == 0
