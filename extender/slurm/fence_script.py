"""The script that a site installs: Epilog of its nodes, PrologSlurmctld and EpilogSlurmctld."""

from __future__ import annotations

import shlex

from extender.slurm.scripts import script

NOTES = "/var/lib/slurm-extender"
"""Where the script leaves its notes, which outlive a reboot of slurmctld's machine."""


def fence_script(hooks: str, key_file: str, hold_s: int, notes: str = NOTES, slurm_conf: str = "") -> str:
    """The script of a site, whole.

    `hooks` is their base address as nodes reach it, `key_file` where the site key is on a node, `hold_s` how long a
    node may be held by an Epilog, `notes` the folder of the notes about placeholders, `slurm_conf` where slurm.conf is
    if not in its usual place.
    """
    text = script("fence.sh")
    values = {"HOOKS": hooks, "KEY_FILE": key_file, "HOLD": str(hold_s), "CONF": slurm_conf, "NOTES": notes}
    for name, value in values.items():
        before, start, rest = text.partition(f"\n{name}=")
        _, comment, after = rest.partition(" #")
        text = f"{before}{start}{shlex.quote(value)}{comment}{after}"
    return text
