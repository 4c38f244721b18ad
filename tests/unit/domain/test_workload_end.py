"""The end of Pods as a wait status, which sacct prints as code and signal."""

from __future__ import annotations

import pytest

from extender.domain.job_outcomes.workload_end import wait_status_of
from extender.domain.views import Failure, PodView
from tests.builders.pod_views import a_pod

SUCCEEDED = a_pod(phase="Succeeded")


def failed(code: int, signal: int = 0) -> PodView:
    return a_pod(phase="Failed", failure=Failure("main", code, "Error", signal))


@pytest.mark.parametrize(
    ("pods", "status"),
    [
        ([SUCCEEDED], 0),
        ([failed(3)], 3 << 8),
        ([failed(137)], 137 << 8),
        ([failed(137, 9)], 9),
        ([failed(1, 4000)], 1 << 8),
        ([failed(70_000)], 255 << 8),
        ([failed(-1)], 255 << 8),
        ([a_pod(phase="Failed", status_reason="DeadlineExceeded")], 1 << 8),
        ([SUCCEEDED, failed(2), failed(5)], 5 << 8),
        ([SUCCEEDED, a_pod(phase="Running")], None),
        ([], None),
    ],
)
def test_the_worst_end_of_the_pods_is_a_wait_status(pods: list[PodView], status: int | None) -> None:
    assert wait_status_of(pods) == status
