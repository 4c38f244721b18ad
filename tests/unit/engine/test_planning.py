"""What a job is to avoid, and how it is made, worked out once for all that wish the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.cluster import SlurmFeatures, SlurmNode, SlurmPartition, SlurmSnapshot
from extender.domain.jobs.exclusions import exclusions
from extender.domain.jobs.job import JobRequest, Mode
from extender.domain.nodes.mapping import NodeMap
from extender.domain.rules import NoPlan, QueuedPlaceholders, SubmissionPlan
from extender.engine import planning
from extender.engine.cluster_snapshot import ClusterSnapshot
from extender.engine.planning import Planner

NAMES = ("a", "b", "c", "d")
REQUEST = JobRequest(title="t", cpus=1, memory_mb=1, partition="p")
FEATURES = SlurmFeatures(release=(26, 5, 0), allocate=True, external=True, external_anywhere=True)


def world(
    nodes: str = "abcd", partition: str = "abcd", external: str = "", reason: str = "", tier: int = 1
) -> ClusterSnapshot:
    names = [name for name in NAMES if name in nodes]
    own = SlurmPartition("p", frozenset(partition), default=True, priority_tier=tier)
    below = SlurmPartition("below", frozenset("ab"), priority_tier=2)
    snapshot = SlurmSnapshot(
        {
            name: SlurmNode(name, flags=frozenset({"EXTERNAL"} if name in external else ()), reason=reason)
            for name in names
        },
        {"p": own, "below": below},
        FEATURES,
        known=True,
    )
    pairs = {name: f"k-{name}" for name in names}
    return ClusterSnapshot(snapshot, NodeMap(pairs, {node: name for name, node in pairs.items()}, known=True))


def planned(
    planner: Planner, there: ClusterSnapshot, candidates: str, **changes: object
) -> tuple[SubmissionPlan | NoPlan, str]:
    wishes = replace(REQUEST, **changes)  # type: ignore[arg-type]
    nodes = frozenset(f"k-{name}" for name in candidates)
    return planner.plan(there, (), nodes, wishes, queue=False, waiting=QueuedPlaceholders())


def test_pods_of_the_same_wishes_are_planned_with_one_pass_of_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def counted(*arguments: Any) -> tuple[str, ...]:
        looks.append(arguments)
        return exclusions(*arguments)

    monkeypatch.setattr(planning, "exclusions", counted)
    planner = Planner(lambda _resource: False)
    for number in range(100):
        there = world(reason=f"said {number}")  # states and reasons change all the time
        assert planner.excluded(there, (), frozenset({"k-a"}), replace(REQUEST, title=str(number))) == ("b", "c", "d")
    assert len(looks) == 1


def test_a_node_that_loses_its_slurmd_is_seen_at_once() -> None:
    planner = Planner(lambda _resource: False)
    before, _ = planned(planner, world(), "ab")
    after, _ = planned(planner, world(external="ab"), "ab")
    assert isinstance(before, SubmissionPlan)
    assert isinstance(after, SubmissionPlan)
    assert (before.mode, after.mode) == (Mode.BATCH, Mode.EXTERNAL)


letters = st.sets(st.sampled_from(NAMES)).map("".join)
worlds = st.builds(world, letters, letters, letters, st.sampled_from(["", "tired"]), st.sampled_from([1, 3]))
wishes = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(Mode),
        "partition": st.sampled_from(["", "p", "below", "p,below", "unknown"]),
        "excluded_nodes": st.sampled_from([(), ("a",)]),
        "begin": st.sampled_from(["", "now+1hour"]),
        "qos": st.sampled_from(["", "high"]),
    },
)


@given(st.lists(st.tuples(worlds, letters, wishes), min_size=2, max_size=8))
def test_a_planner_that_remembers_says_what_a_fresh_one_says(
    arguments: list[tuple[ClusterSnapshot, str, dict[str, object]]],
) -> None:
    planner = Planner(lambda _resource: False)
    for there, candidates, changes in arguments:
        fresh = Planner(lambda _resource: False)
        assert planned(planner, there, candidates, **changes) == planned(fresh, there, candidates, **changes)


def test_nodes_of_two_partitions_of_a_request_count_once() -> None:
    there = world()  # both partitions have the nodes a and b
    chosen, why = planned(Planner(lambda _: False, gangs_need_fence=False), there, "ab", partition="p,below", members=3)
    assert why == "2 nodes are suitable, 3 are needed. Other nodes: 2 excluded by kube-scheduler or by rules of a Pod."
    assert isinstance(chosen, SubmissionPlan)


def test_nodes_that_the_mode_of_a_job_excludes_are_not_said_to_be_excluded_by_kube_scheduler() -> None:
    _, why = planned(Planner(lambda _: False, gangs_need_fence=False), world(external="cd"), "abcd", members=3)
    assert why == "2 nodes are suitable, 3 are needed. Other nodes: 2 not usable in the mode of the job."
