"""The script that a site installs: Epilog of its nodes, PrologSlurmctld and EpilogSlurmctld."""

from __future__ import annotations

import shlex

from extender.slurm.scripts import script

NOTES = "/var/lib/slurm-extender"
"""Where the script leaves its notes, which outlive a reboot of slurmctld's machine."""


def fence_script(hooks: str, key_file: str, hold_s: int, notes: str = NOTES, slurm_conf: str = "") -> str:
    """Return the whole script of a site.

    `hooks` is their base address as nodes reach it, `key_file` where the site key is on a node, `hold_s` how long a
    node may be held by an Epilog, `notes` the folder of the notes about placeholders, `slurm_conf` where slurm.conf is
    if not in its usual place.
    """
    return script(
        "fence.sh",
        {"HOOKS": hooks, "KEY_FILE": key_file, "HOLD": str(hold_s), "CONF": slurm_conf, "NOTES": notes},
    )


def installation(key_file: str, notes: str = NOTES) -> str:
    """Return the commands and lines of slurm.conf that install the script, to be copied."""
    path = "/etc/slurm/slurm-extender-fence.sh"
    return f"""\
# To install the script, saved as slurm-extender-fence.sh, with the site key in slurm-extender.key:
# 1. On every node with slurmd, as root:
install -m 600 -o root slurm-extender.key {shlex.quote(key_file)}
install -m 755 -o root slurm-extender-fence.sh {path}
# 2. On the machine of slurmctld, as root; `slurm` is SlurmUser:
install -m 600 -o slurm slurm-extender.key {shlex.quote(key_file)}
install -m 755 -o root slurm-extender-fence.sh {path}
install -d -m 700 -o slurm {shlex.quote(notes)}
# 3. The same key for the extender; then set hooks.siteKeyFile: /etc/slurm-extender/secret/site-key and restart it:
kubectl -n slurm-extender patch secret slurm-extender --type merge \\
  --patch "{{\\"stringData\\": {{\\"site-key\\": \\"$(cat slurm-extender.key)\\"}}}}"
# 4. In slurm.conf, followed by `scontrol reconfigure`:
Epilog={path}
EpilogSlurmctld={path}
PrologSlurmctld={path}
# 5. Place a Pod on each node and delete it; `slurm-extender doctor` then lists the nodes with a working fence.
"""
