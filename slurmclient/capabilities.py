"""Derive the features of a Slurm from the API version (schema of the data_parser) and the release (its behaviour).

Sources: the OpenAPI descriptions that releases 23.11 to 26.05 serve, their release notes, and runs against them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from slurmclient.errors import ProtocolError

#: API versions that this package supports, v0.0.40 to v0.0.45, the best first.
API_VERSIONS: Final = (45, 44, 43, 42, 41, 40)


class Release(NamedTuple):
    """Identify a release of Slurm; compares in the order of release."""

    year: int
    month: int
    micro: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `24.11.5`, `26.05.0-0rc1` or `24.11.5-1`.

        Raises:
            ProtocolError: the text does not begin like a release.
        """
        match = re.match(r"\s*([0-9]{2})\.([0-9]{1,2})(?:\.([0-9]{1,9}))?", text)
        if match is None:
            raise ProtocolError(f"slurmrestd reports the release {text[:80]!r}, which does not look like 24.11.5")
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))

    def __str__(self) -> str:
        return f"{self.year:02d}.{self.month:02d}.{self.micro}"


#: The oldest release supported: before it `DELETE /jobs` is missing, and `GET /jobs/state` before 23.11.5.
OLDEST_RELEASE: Final = Release(23, 11, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """List the features of one Slurm; see :func:`capabilities_of` for the conditions.

    Attributes:
        api_version: 40 … 45 for v0.0.40 … v0.0.45.
        release: the release of slurmrestd.
        allocate: `POST /job/allocate`.
        external_jobs: the flag EXTERNAL_JOB.
        external_needs_directory: an external job must name a working directory.
        external_nodes: external nodes survive drain and resume.
        external_nodes_visible: node states show EXTERNAL.
        new_node: `POST /new/node`.
        renewed_nodes: a deleted node can be created again under its name.
        node_topology: a node shows its topology, and it can be changed.
        resources: `GET /resources/{job_id}`.
        bulk_nodes: `POST /nodes` updates several nodes.
        nodes_update_time: `GET /nodes?update_time=` works.
        shared_readback: a job shows how it shares its nodes.
        shared_topo: jobs can ask for exclusive use of a topology block.
        requeue: `POST /jobs/requeue`.
        conf: `GET /conf`.
        job_records: `POST /job/{job_id}` of slurmdbd.
        health: `/livez`, `/readyz`, `/healthz`.
    """

    api_version: int
    release: Release
    allocate: bool
    external_jobs: bool
    external_needs_directory: bool
    external_nodes: bool
    external_nodes_visible: bool
    new_node: bool
    renewed_nodes: bool
    node_topology: bool
    resources: bool
    bulk_nodes: bool
    nodes_update_time: bool
    shared_readback: bool
    shared_topo: bool
    requeue: bool
    conf: bool
    job_records: bool
    health: bool


def capabilities_of(api_version: int, release: Release) -> Capabilities:
    """Derive the features from the API version and the release."""
    return Capabilities(
        api_version=api_version,
        release=release,
        allocate=api_version >= 41,
        external_jobs=api_version >= 43,
        external_needs_directory=release < Release(25, 11),
        # Before 25.11.6 a resumed external node stays NOT_RESPONDING indefinitely.
        external_nodes=release >= Release(25, 11, 6),
        external_nodes_visible=api_version >= 44,
        new_node=api_version >= 44,
        renewed_nodes=release >= Release(26, 5, 3),
        node_topology=api_version >= 43,
        resources=api_version >= 44,
        bulk_nodes=release >= Release(24, 11),
        # Before 26.05.3 slurmrestd answers 500 "Unable to query partitions" when nodes changed and partitions did not.
        nodes_update_time=release >= Release(26, 5, 3),
        shared_readback=api_version <= 44,
        shared_topo=api_version >= 41,
        requeue=api_version >= 45,
        conf=api_version >= 45,
        job_records=api_version >= 44,
        health=release >= Release(26, 5),
    )
