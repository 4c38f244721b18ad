"""Kueue's groups of plain Pods on the real parts: they wait for its admission, and start together after it.

Kueue's controller does not run. The Pods have the labels, annotations and the scheduling gate that its webhook gives
them, and the test removes the gates as Kueue does when it admits a group.
"""

from __future__ import annotations

from typing import Any

import pytest

from extender.domain.gangs import labels
from lab.site import PodRef
from tests.builders.gang_controllers import STEADY_S, bound_pods, in_order, one_gang
from tests.builders.stage import Stage

pytestmark = [pytest.mark.controllers, pytest.mark.slow, pytest.mark.modes("batch")]

ADMISSION = "kueue.x-k8s.io/admission"
INDEX = "example.org/index"


def members(stage: Stage, count: int) -> list[PodRef]:
    """Create the Pods of one group as Kueue's webhook leaves them; names are not in the order of the indexes."""
    said = {labels.KUEUE_SIZE: str(count), labels.KUEUE_INDEX_LABEL: INDEX}
    own = {labels.KUEUE_GROUP: "ring", "kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/queue-name": "team"}
    return [
        stage.pod(
            f"ring-{count - index}",
            annotations=said,
            labels={**own, INDEX: str(index)},
            cpus=2,
            schedulingGates=[{"name": ADMISSION}],
        )
        for index in range(count)
    ]


def admit(stage: Stage, pod: PodRef) -> None:
    """Remove the gate of a Pod, as Kueue does."""
    body: dict[str, Any] = {"spec": {"schedulingGates": []}}
    status, answer = stage.site.kube.api("PATCH", pod.path, body, content_type="application/merge-patch+json")
    assert status == 200, answer


def test_a_group_of_kueue_has_no_job_before_all_of_its_pods_are_admitted_and_is_one_gang_then(stage: Stage) -> None:
    pods = members(stage, 3)
    admit(stage, pods[0])
    stage.site.elapse(STEADY_S)
    assert stage.jobs() == []
    for pod in pods[1:]:
        admit(stage, pod)
    one_gang(stage, in_order(bound_pods(stage, 3), INDEX))
    assert len(stage.jobs()) == 1
    stage.finish()
