"""v0.0.44, Slurm 25.11 and 26.05."""

from __future__ import annotations

from slurmclient.models.description import Shared
from slurmclient.wire import job, partition
from slurmclient.wire.fields import Raw
from slurmclient.wire.partition import Sharing
from slurmclient.wire.v0045 import CodecV0045


class CodecV0044(CodecV0045):
    """Support new nodes; report the sharing of a job, and less of the sharing of a partition."""

    version = 44

    def read_shared(self, raw: Raw) -> Shared | None:
        """Read the way in which a job shares its nodes."""
        return job.read_shared(raw)

    def read_sharing(self, raw: Raw) -> Sharing:
        """Read `maximums.oversubscribe` in place of `partition.oversubscribe`."""
        return partition.read_sharing_v0044(raw)
