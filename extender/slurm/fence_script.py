"""The script that a site installs: Epilog of its nodes, PrologSlurmctld and EpilogSlurmctld."""

from __future__ import annotations

from extender.slurm.scripts import script

NOTES = "/var/lib/slurm-extender"
"""Where the script leaves its notes, which outlive a reboot of slurmctld's machine."""


def fence_script(hooks: str, key_file: str, hold_s: int, notes: str = NOTES, slurm_conf: str = "") -> str:
    """The script of a site, whole.

    `hooks` is their base address as nodes reach it, `key_file` where the site key is on a node, `hold_s` how long a
    node may be held by an Epilog, `notes` the folder of the notes about placeholders, `slurm_conf` where slurm.conf is
    if not in its usual place.
    """
    return script(
        "fence.sh",
        {"HOOKS": hooks, "KEY_FILE": key_file, "HOLD": str(hold_s), "CONF": slurm_conf, "NOTES": notes},
    )
