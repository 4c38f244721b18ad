"""The Epilog that a site installs on its nodes."""

from __future__ import annotations

import shlex

from extender.slurm.scripts import script


def epilog(hooks: str, key_file: str, hold_s: int) -> str:
    """The Epilog of a site, whole.

    `hooks` is their base address as nodes reach it, `key_file` where the site key is on a node, `hold_s` how long a
    node may be held.
    """
    text = script("epilog.sh")
    for name, value in (("HOOKS", hooks), ("KEY_FILE", key_file), ("HOLD", str(hold_s))):
        before, start, rest = text.partition(f"\n{name}=")
        _, comment, after = rest.partition(" #")
        text = f"{before}{start}{shlex.quote(value)}{comment}{after}"
    return text
