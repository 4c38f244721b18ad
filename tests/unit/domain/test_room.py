"""Whether any node is large enough, and which size comes nearest."""

import pytest

from extender.domain.cluster import SlurmNode
from extender.domain.jobs.job import JobRequest
from extender.domain.placing import room
from extender.domain.views import NodeView
from tests.builders.pod_views import a_node, a_pod

BIG = SlurmNode("big", cpus=64, memory_mb=512_000, gres={"gpu:h100": 8})
SMALL = SlurmNode("small", cpus=8, memory_mb=16_000)
MIXED = SlurmNode("mixed", cpus=8, memory_mb=16_000, gres={"gpu:a100": 2, "gpu:h100": 1, "shard": 16})


def nowhere(_resource: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("node", "request_", "lacking"),
    [
        (BIG, JobRequest("t", 64, 512_000, gres={"gpu": 8}), []),
        (BIG, JobRequest("t", 65, 512_001), ["CPUs", "MiB of memory"]),
        (BIG, JobRequest("t", 1, 1, gres={"gpu:h100": 9}), ["gpu:h100"]),
        (BIG, JobRequest("t", 1, 1, gres={"gpu:a100": 1}), ["gpu:a100"]),
        (SMALL, JobRequest("t", 1, 1, gres={"gpu": 1}), ["gpu"]),
        # A request without a type may be met by several.
        (MIXED, JobRequest("t", 1, 1, gres={"gpu": 3, "shard": 16}), []),
        (MIXED, JobRequest("t", 1, 1, tres_per_node="gres/gpu:a100:3,gres/shard"), ["gpu:a100"]),
    ],
)
def test_a_node_of_slurm_lacks_what_it_was_not_configured_to_have(
    node: SlurmNode, request_: JobRequest, lacking: list[str]
) -> None:
    has = room.of_slurm(node)
    assert has is not None
    assert room.lacks(room.of_job(request_), has) == lacking


def test_a_node_of_which_nothing_is_known_has_no_size() -> None:
    assert room.of_slurm(SlurmNode("n")) is None
    assert room.of_kubelet(a_node(cpu="many"), ["cpu", "gpu"]) == {"cpu": room.UNKNOWN, "gpu": 0}
    assert room.of_kubelet(NodeView("n"), ["cpu"]) == {"cpu": room.UNKNOWN}


def test_kubelet_s_units_are_those_of_its_own_sums() -> None:
    requested = room.of_pod(a_pod("1500m", "1Gi", {"hugepages-2Mi": "4Mi"}), nowhere)
    assert room.lacks(requested, room.of_kubelet(a_node(cpu="2"), requested)) == ["hugepages-2Mi"]
    assert room.lacks(requested, room.of_kubelet(a_node(cpu="1", more={"hugepages-2Mi": "4Mi"}), requested)) == ["cpu"]


def test_what_is_on_no_node_is_required_of_none() -> None:
    assert room.of_pod(a_pod("1", "", {"x.io/licence": "1"}), "x.io/licence".__eq__) == {"cpu": 1000}
    assert room.of_pod(a_pod("lots"), nowhere) == {}


def offers(*nodes: SlurmNode) -> dict[str, room.Amounts]:
    return {node.name: has for node in nodes if (has := room.of_slurm(node)) is not None}


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (JobRequest("t", 128, 1), "Closest is Slurm node big with 64 of 128 requested CPUs."),
        (
            JobRequest("t", 9, 1, gres={"shard": 1}),
            "Closest is Slurm node mixed with 8 of 9 requested CPUs (largest: 64).",
        ),
        (
            JobRequest("t", 1, 1, gres={"gpu:h200": 1}),
            "Closest is Slurm node big with 0 of 1 requested gpu:h200 (available types: gpu:a100, gpu:h100).",
        ),
        (
            JobRequest("t", 1, 1, gres={"fpga": 2}),
            "Closest is Slurm node big with 0 of 2 requested fpga.",
        ),
        (
            JobRequest("t", 1, 1, gres={"fpga:large": 2}),
            "Closest is Slurm node big with 0 of 2 requested fpga:large (available types: none).",
        ),
        (
            JobRequest("t", 100, 600_000),
            "Closest is Slurm node big with 64 of 100 requested CPUs and ",
        ),
    ],
)
def test_the_closest_size_is_named_with_what_it_lacks(request_: JobRequest, said: str) -> None:
    assert room.closest("Slurm node", room.of_job(request_), offers(BIG, SMALL, MIXED)).startswith(said)
