"""v0.0.41, Slurm 24.05 to 25.11."""

from __future__ import annotations

from slurmclient.models.controller import ControllerPing
from slurmclient.wire import controller
from slurmclient.wire.fields import Raw
from slurmclient.wire.v0042 import CodecV0042


class CodecV0041(CodecV0042):
    """Use other keys for the switches of a job, in replies only, and in the answer to a ping."""

    version = 41
    switches_key = "minimum_switches"

    def read_controller(self, raw: Raw) -> ControllerPing:
        """Read `pinged` and `mode` in place of `responding` and `primary`."""
        return controller.read_controller_v0041(raw)
