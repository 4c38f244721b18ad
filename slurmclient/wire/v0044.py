"""v0.0.44, Slurm 25.11 and 26.05."""

from __future__ import annotations

from slurmclient.models.description import Shared
from slurmclient.wire import job, partition
from slurmclient.wire.fields import Raw
from slurmclient.wire.partition import Sharing
from slurmclient.wire.v0045 import CodecV0045


class CodecV0044(CodecV0045):
    """Tells how a job shares its nodes, and less of how a partition does; new nodes came with it."""

    version = 44

    def read_shared(self, raw: Raw) -> Shared | None:
        """Read how a job shares its nodes."""
        return job.read_shared(raw)

    def read_sharing(self, raw: Raw) -> Sharing:
        """``maximums.oversubscribe`` stands for ``partition.oversubscribe``."""
        return partition.read_sharing_v0044(raw)
