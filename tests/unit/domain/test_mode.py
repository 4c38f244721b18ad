"""Mode `auto` makes a job without a script only where every node that the job may get has a working fence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.cluster import SlurmFeatures, SlurmNode, SlurmPartition, SlurmSnapshot
from extender.domain.jobs.job import JobRequest, Mode
from extender.domain.nodes.fence_evidence import NO_FENCE, FencedNodes
from extender.domain.placing.mode import few, job_safety, no_safe_mode
from extender.domain.rules import QueuedPlaceholders, SubmissionPlan, plan

NODES = tuple(f"n{number}" for number in range(1, 7))
REQUEST = JobRequest(title="team/train", cpus=1, memory_mb=1)
EXTERNAL = frozenset({"EXTERNAL"})


def slurm(*names: str, external: frozenset[str] = frozenset()) -> SlurmSnapshot:
    return SlurmSnapshot(
        nodes={name: SlurmNode(name, flags=EXTERNAL if name in external else frozenset()) for name in names},
        partitions={"batch": SlurmPartition("batch", frozenset(names), default=True)},
        features=SlurmFeatures(release=(26, 5, 0), allocate=True, external=True),
        known=True,
    )


def epilogs(*names: str) -> FencedNodes:
    return FencedNodes(epilog=frozenset(names))


def planned(
    world: SlurmSnapshot,
    fenced: FencedNodes,
    request: JobRequest = REQUEST,
    excluded: tuple[str, ...] = (),
    queue: bool = False,
) -> SubmissionPlan:
    found = plan(request, world, excluded, queue, QueuedPlaceholders(), fenced=fenced)
    assert isinstance(found, SubmissionPlan)
    return found


subsets = st.frozensets(st.sampled_from(NODES))


@given(
    external=subsets,
    epilog=subsets,
    prolog=subsets,
    excluded=subsets,
    queue=st.booleans(),
    request=st.builds(
        replace,
        st.just(REQUEST),
        partition=st.sampled_from(("", "batch", "batch,other", "unknown")),
        min_nodes=st.sampled_from((None, 1, 2, 4)),
        required_nodes=st.sampled_from(((), ("n1",))),
        begin=st.sampled_from(("", "now+1hour")),
    ),
)
def test_mode_auto_never_makes_an_allocation_that_may_get_a_node_without_evidence(
    external: frozenset[str],
    epilog: frozenset[str],
    prolog: frozenset[str],
    excluded: frozenset[str],
    queue: bool,
    request: JobRequest,
) -> None:
    world, fenced = slurm(*NODES, external=external), FencedNodes(epilog, prolog)
    found = plan(request, world, tuple(excluded), queue, QueuedPlaceholders(), fenced=fenced)
    if isinstance(found, SubmissionPlan) and found.mode is Mode.ALLOCATION:
        assert found.immediate
        left = set(NODES) - set(found.excluded)
        assert left <= (epilog | prolog) - external


def test_in_a_default_installation_a_job_is_a_batch_job() -> None:
    assert planned(slurm("a", "b"), NO_FENCE) == SubmissionPlan(Mode.BATCH, False, ())


@pytest.mark.parametrize("fenced", [epilogs("a", "b"), FencedNodes(prolog_slurmctld=frozenset({"a", "b"}))])
def test_where_every_node_has_a_fence_the_job_is_an_allocation(fenced: FencedNodes) -> None:
    assert planned(slurm("a", "b"), fenced) == SubmissionPlan(Mode.ALLOCATION, True, ())


def test_an_excluded_node_needs_no_fence() -> None:
    assert planned(slurm("a", "b"), epilogs("b"), excluded=("a",)) == SubmissionPlan(Mode.ALLOCATION, True, ("a",))


def test_a_part_of_the_nodes_with_a_fence_is_tried_at_once_without_the_others() -> None:
    assert planned(slurm("a", "b", "c"), epilogs("b")) == SubmissionPlan(Mode.ALLOCATION, True, ("a", "c"))


def test_a_job_that_has_to_wait_excludes_no_node_for_want_of_a_fence() -> None:
    assert planned(slurm("a", "b", "c"), epilogs("b"), queue=True) == SubmissionPlan(Mode.BATCH, False, ())


def test_fewer_nodes_with_a_fence_than_the_job_needs_make_a_batch_job_on_all() -> None:
    wide = replace(REQUEST, min_nodes=2)
    assert planned(slurm("a", "b", "c"), epilogs("b"), wide) == SubmissionPlan(Mode.BATCH, False, ())


def test_a_node_that_the_pod_names_is_not_excluded_for_want_of_a_fence() -> None:
    named = replace(REQUEST, required_nodes=("a",))
    assert planned(slurm("a", "b"), epilogs("b"), named) == SubmissionPlan(Mode.BATCH, False, ())


def test_a_mode_that_the_pod_names_stays() -> None:
    assert planned(slurm("a"), NO_FENCE, replace(REQUEST, mode=Mode.ALLOCATION)).mode is Mode.ALLOCATION


def test_a_batch_job_of_one_node_is_safe_everywhere() -> None:
    assert job_safety(Mode.BATCH, 1, ("a", "b"), (), NO_FENCE).safe


@pytest.mark.parametrize("mode", [Mode.BATCH, Mode.ALLOCATION])
def test_a_job_of_several_nodes_needs_the_fence_script_on_each_of_them(mode: Mode) -> None:
    found = job_safety(mode, 2, ("node-7", "node-3", "node-1"), (), epilogs("node-1"))
    assert not found.safe
    assert found.text == "GangNeedsFence: install the fence script on node-3, node-7"
    assert job_safety(mode, 2, ("node-1", "node-3"), (), epilogs("node-1", "node-3")).safe


def test_a_node_without_slurmd_is_fenced_by_prologslurmctld_alone() -> None:
    assert not job_safety(Mode.EXTERNAL, 1, ("x",), ("x",), epilogs("x")).safe
    assert job_safety(Mode.EXTERNAL, 1, ("x",), ("x",), FencedNodes(prolog_slurmctld=frozenset({"x"}))).safe


def test_nodes_without_slurmd_and_without_prologslurmctld_are_reported() -> None:
    world = slurm("a", "x", "y", external=frozenset({"x", "y"}))
    (said,) = no_safe_mode(world, FencedNodes(prolog_slurmctld=frozenset({"y"})))
    assert "without a working fence: x:" in said
    assert no_safe_mode(world, FencedNodes(prolog_slurmctld=frozenset({"x", "y"}))) == ()
    assert no_safe_mode(slurm("a"), NO_FENCE) == ()


def test_a_message_names_ten_nodes_at_most() -> None:
    assert few([f"n{number:02}" for number in range(12)]).endswith("n08, n09 and 2 more")
    assert few([f"n{number:02}" for number in range(11)]).endswith("n08, n09 and 1 more")
    assert few([f"n{number:02}" for number in range(10)]).endswith("n08, n09")
