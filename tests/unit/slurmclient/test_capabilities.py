from __future__ import annotations

from itertools import pairwise

import pytest

from slurmclient import API_VERSIONS, OLDEST_RELEASE, ProtocolError, Release
from slurmclient.capabilities import capabilities_of


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("24.11.5", Release(24, 11, 5)),
        ("26.05.0-0rc1", Release(26, 5, 0)),
        ("24.11.5-1", Release(24, 11, 5)),
        ("26.05", Release(26, 5, 0)),
    ],
)
def test_a_release_is_read_as_slurm_writes_it(text: str, release: Release) -> None:
    assert Release.parse(text) == release


@pytest.mark.parametrize("text", ["", "slurm", "v24", "24"])
def test_what_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="release"):
        Release.parse(text)


def test_releases_compare_by_age_and_print_as_slurm_does() -> None:
    assert Release(23, 11, 11) < Release(24, 5, 1) < Release(24, 11) < Release(26, 5, 3)
    assert str(Release(26, 5, 3)) == "26.05.3"
    assert Release(23, 11, 6) == OLDEST_RELEASE


def test_the_best_version_comes_first() -> None:
    assert all(better > worse for better, worse in pairwise(API_VERSIONS))


@pytest.mark.parametrize(
    ("version", "release", "true"),
    [
        (40, Release(23, 11, 11), {"shared_readback", "external_needs_directory"}),
        (41, Release(24, 5, 4), {"shared_readback", "external_needs_directory", "allocate", "shared_topo"}),
        (
            42,
            Release(24, 11, 5),
            {"shared_readback", "external_needs_directory", "allocate", "shared_topo", "bulk_nodes"},
        ),
        (
            43,
            Release(25, 5, 9),
            {
                "shared_readback", "external_needs_directory", "allocate", "shared_topo", "bulk_nodes", "external_jobs",
                "node_topology",
            },
        ),
        (
            44,
            Release(25, 11, 5),
            {
                "shared_readback", "allocate", "shared_topo", "bulk_nodes", "external_jobs", "external_nodes_visible",
                "new_node", "resources", "node_topology", "job_records",
            },
        ),
        (
            45,
            Release(26, 5, 2),
            {
                "allocate", "shared_topo", "bulk_nodes", "external_jobs", "external_nodes_visible", "external_nodes",
                "new_node", "resources", "requeue", "health", "conf", "node_topology", "job_records",
            },
        ),
        (
            45,
            Release(26, 5, 5),
            {
                "allocate", "shared_topo", "bulk_nodes", "external_jobs", "external_nodes_visible", "external_nodes",
                "new_node", "resources", "requeue", "health", "conf", "nodes_update_time",
                "node_topology", "renewed_nodes", "job_records",
            },
        ),
    ],
)  # fmt: skip
def test_version_and_release_decide_what_can_be_requested(version: int, release: Release, true: set[str]) -> None:
    capabilities = capabilities_of(version, release)
    flags = set(type(capabilities).__dataclass_fields__) - {"api_version", "release"}
    assert {name for name in flags if getattr(capabilities, name)} == true


def test_external_nodes_can_be_drained_and_resumed_from_25_11_6_on() -> None:
    assert not capabilities_of(44, Release(25, 11, 5)).external_nodes
    assert capabilities_of(44, Release(25, 11, 6)).external_nodes
