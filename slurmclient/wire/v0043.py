"""v0.0.43, Slurm 25.05 to 26.05."""

from __future__ import annotations

from slurmclient.wire.v0044 import CodecV0044


class CodecV0043(CodecV0044):
    """Support external jobs; the states of nodes do not include EXTERNAL yet."""

    version = 43
