"""v0.0.45, Slurm 26.05."""

from __future__ import annotations

from slurmclient.models.description import Shared
from slurmclient.wire.codec import Codec
from slurmclient.wire.fields import Raw


class CodecV0045(Codec):
    """The habits of the newest version."""

    version = 45

    def read_shared(self, raw: Raw) -> Shared | None:
        """``shared`` is always empty since this version: what a job asked for is not told any more."""
        return None
