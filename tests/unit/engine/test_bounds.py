"""What the author of a Pod can fill has a bound."""

from __future__ import annotations

import asyncio
import json

import pytest

from extender.assembly.io_context import LoopClock
from extender.domain.views import PodView
from extender.engine import planning
from extender.engine.cluster_snapshot import ClusterSnapshot
from extender.engine.planning import NodeCapacityIndex
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


@pytest.mark.looptime
async def test_a_key_that_is_always_due_leaves_the_loop_its_turns() -> None:
    kept, clock, fired = Timers(LoopClock()), LoopClock(), list[float]()

    def fire(key: str) -> None:
        fired.append(clock.now())
        kept.set(key, 0.0)

    kept.set("pod", 0.0)
    task = asyncio.create_task(kept.run(fire))
    await asyncio.sleep(10 * timers.TICK)
    task.cancel()
    assert 5 <= len(fired) <= 12


@pytest.mark.looptime
async def test_a_key_that_another_one_cancels_in_the_same_instant_is_not_due() -> None:
    kept, fired = Timers(LoopClock()), list[str]()

    def fire(key: str) -> None:
        fired.append(key)
        if key == "first":
            kept.set("second", None)
            kept.set("third", 0.5)

    for key in ("first", "second", "third"):
        kept.set(key, 0.1)
    task = asyncio.create_task(kept.run(fire))
    await asyncio.sleep(0.4)
    assert fired == ["first"]
    await asyncio.sleep(0.4)
    task.cancel()
    assert fired == ["first", "third"]


def test_resources_that_no_node_has_are_remembered_up_to_a_bound() -> None:
    found = NodeCapacityIndex(lambda _resource: False)
    world = ClusterSnapshot()
    for number in range(1000):
        found.too_small(world, [_pod_requesting(f"evil.example/r{number}")])
    assert len(found._by_amount) <= planning.SIZES_KEPT
    assert len(found._small) <= planning.SIZES_KEPT


def _pod_requesting(resource: str) -> PodView:
    return read_pod(json.dumps(a_pod("p", more={resource: "1"})))
