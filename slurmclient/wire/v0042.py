"""v0.0.42, Slurm 24.11 to 26.05."""

from __future__ import annotations

from slurmclient.wire.v0043 import CodecV0043


class CodecV0042(CodecV0043):
    """Support no external jobs."""

    version = 42
    external_jobs = False
