"""v0.0.40, Slurm 23.11 to 25.05."""

from __future__ import annotations

from slurmclient.models.description import Shared
from slurmclient.models.job import NodeAllocation
from slurmclient.wire import job
from slurmclient.wire.fields import Raw
from slurmclient.wire.v0041 import CodecV0041


class CodecV0040(CodecV0041):
    """Support no exclusive topology blocks; the resources of a job have another form."""

    version = 40
    shared_modes = frozenset(Shared) - {Shared.TOPO}

    def read_allocations(self, raw: Raw) -> tuple[NodeAllocation, ...]:
        """Read `job_resources.allocated_nodes` in place of `job_resources.nodes.allocation`."""
        return job.read_allocations_v0040(raw)
