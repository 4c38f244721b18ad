"""The script that a site installs where Nodes are locked for Slurm's own jobs: Prolog and Epilog."""

from __future__ import annotations

from extender.slurm.scripts import script


def lock_script(hooks: str, key_file: str, hold_s: int, slurm_conf: str = "") -> str:
    """Return the whole script of a site.

    `hooks` is their base address as nodes reach it, `key_file` where the site key is on a node, `hold_s` how long a job
    waits for its lock, `slurm_conf` where slurm.conf is if not in its usual place.
    """
    return script("lock.sh", {"HOOKS": hooks, "KEY_FILE": key_file, "HOLD": str(hold_s), "CONF": slurm_conf})
