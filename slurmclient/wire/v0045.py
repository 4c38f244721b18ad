"""v0.0.45, Slurm 26.05."""

from __future__ import annotations

from slurmclient.models.description import Shared
from slurmclient.wire.codec import Codec
from slurmclient.wire.fields import Raw


class CodecV0045(Codec):
    """Use the schema of the newest version."""

    version = 45

    def read_shared(self, raw: Raw) -> Shared | None:
        """Return None: since this version `shared` is always empty."""
        return None
