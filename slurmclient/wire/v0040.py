"""v0.0.40, Slurm 23.11 to 25.05."""

from __future__ import annotations

from slurmclient.models.description import Shared
from slurmclient.models.job import NodeAllocation
from slurmclient.wire import job
from slurmclient.wire.fields import Raw
from slurmclient.wire.v0041 import CodecV0041


class CodecV0040(CodecV0041):
    """No blocks of the topology to have alone, and another form of what a job holds."""

    version = 40
    shared_modes = frozenset(Shared) - {Shared.TOPO}

    def read_allocations(self, raw: Raw) -> tuple[NodeAllocation, ...]:
        """``job_resources.allocated_nodes`` stands for ``job_resources.nodes.allocation``."""
        return job.read_allocations_v0040(raw)
