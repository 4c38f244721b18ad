"""What the author of a Pod can fill has a bound."""

from __future__ import annotations

import json

from extender.domain.views import PodView
from extender.engine.cluster_snapshot import ClusterSnapshot
from extender.engine.submission import planning
from extender.engine.submission.planning import NodeCapacityIndex
from extender.kube.wire.pod import read_pod
from extender.runtime import timers
from extender.runtime.timers import Timers
from simulator.kube.objects import a_pod
from tests.builders.services import StillClock


async def test_an_instant_that_is_changed_indefinitely_leaves_no_old_ones_behind() -> None:
    kept = Timers(StillClock())
    kept.set("other", 5.0)
    for number in range(100_000):
        kept.set("pod", 1e9 + number)
    assert len(kept._heap) <= timers.SLACK + 2 * 2
    assert kept._due == {"other": 5.0, "pod": 1e9 + 99_999}
    assert min(kept._heap)[2] == "other"


def test_resources_that_no_node_has_are_remembered_up_to_a_bound() -> None:
    found = NodeCapacityIndex(lambda _resource: False)
    world = ClusterSnapshot()
    for number in range(1000):
        found.too_small(world, [_asking_for(f"evil.example/r{number}")])
    assert len(found._by_amount) <= planning.SIZES_KEPT
    assert len(found._small) <= planning.SIZES_KEPT


def _asking_for(resource: str) -> PodView:
    return read_pod(json.dumps(a_pod("p", more={resource: "1"})))
