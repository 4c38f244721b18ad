"""Slurm is told which nodes not to use, so that it uses a candidate or none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.jobs.exclusions import exclusions, within_reach
from extender.domain.jobs.job import JobRequest
from extender.domain.nodes.mapping import NodeMap, map_nodes
from tests.builders.pod_views import a_node
from tests.builders.slurm_snapshots import a_slurm_snapshot

SNAPSHOT = a_slurm_snapshot({"batch": ["s1", "s2", "s3"], "gpu": ["s3", "s4"], "login": ["s9"]}, default="batch")
LABEL = "slurm-extender.io/slurm-node"
NODES = map_nodes([a_node(f"k{n}", labels={LABEL: f"s{n}"}) for n in (1, 2, 4)], SNAPSHOT)


def job(partition: str = "", excluded: tuple[str, ...] = ()) -> JobRequest:
    return JobRequest("t", 1, 1, partition=partition, excluded_nodes=excluded)


def exclusion_list(request: JobRequest, *candidates: str, refused: tuple[str, ...] = ()) -> list[str]:
    return list(exclusions(frozenset(candidates), frozenset(refused), NODES, SNAPSHOT, request))


def test_everything_in_the_partition_but_the_candidates_is_excluded_unpaired_nodes_included() -> None:
    assert exclusion_list(job(), "k1") == ["s2", "s3"]


def test_nodes_of_other_partitions_are_not_named() -> None:
    assert exclusion_list(job("gpu"), "k1", "k4") == ["s3"]


def test_a_job_for_several_partitions_is_held_to_the_candidates_in_all_of_them() -> None:
    assert exclusion_list(job("batch, gpu"), "k2", "k4") == ["s1", "s3"]


def test_a_refused_node_is_no_candidate() -> None:
    assert exclusion_list(job(), "k1", "k2", refused=("k1",)) == ["s1", "s3"]


def test_what_the_user_excludes_is_excluded_as_far_as_it_exists() -> None:
    assert exclusion_list(job(excluded=("s1", "s9", "gone")), "k1", "k2") == ["s1", "s3", "s9"]


def test_no_candidate_leaves_nothing() -> None:
    assert exclusion_list(job()) == ["s1", "s2", "s3"]


@pytest.mark.parametrize("partition", ["unheard-of", "batch,unheard-of"])
def test_a_partition_that_is_not_known_could_be_anywhere(partition: str) -> None:
    assert within_reach(SNAPSHOT, job(partition)) == SNAPSHOT.nodes.keys()


def test_without_a_default_partition_a_job_could_be_anywhere() -> None:
    snapshot = a_slurm_snapshot({"batch": ["s1"], "gpu": ["s2"]})
    assert within_reach(snapshot, job()) == {"s1", "s2"}


_few = st.frozensets(st.sampled_from(["a", "b", "c", "d"]))


@given(_few, _few, _few, _few, st.dictionaries(st.sampled_from(["p", "q"]), _few, min_size=1))
def test_slurm_can_choose_exactly_the_candidates_within_reach(
    candidates: frozenset[str],
    refused: frozenset[str],
    paired: frozenset[str],
    excluded: frozenset[str],
    partitions: dict[str, frozenset[str]],
) -> None:
    snapshot = a_slurm_snapshot(partitions)
    pairs = {name: name.upper() for name in paired}
    node_map = NodeMap(pairs, {node: name for name, node in pairs.items()})
    upper = frozenset(map(str.upper, candidates)), frozenset(map(str.upper, refused))
    request = job(",".join(partitions), excluded=tuple(excluded))
    out = exclusions(*upper, node_map, snapshot, request)
    left = within_reach(snapshot, request) - set(out)
    assert list(out) == sorted(set(out))
    assert set(out) <= snapshot.nodes.keys()
    assert left == (within_reach(snapshot, request) & (candidates - refused) & paired) - excluded
