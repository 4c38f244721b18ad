"""The job that calls the hooks from a node, for `slurm-extender doctor --submit-probe`."""

from __future__ import annotations

from extender.slurm.scripts import script

NAME = "slurm-extender-probe"
"""The name of the job."""


def probe_script(hooks: str) -> str:
    """Return the script, whole; `hooks` is their base address."""
    return script("probe.sh", {"HOOKS": hooks})
