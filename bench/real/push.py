"""Slurm tells of an end by itself: the fence script as EpilogSlurmctld, installed for a while."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from lab.extender import PROGRAM
from lab.site import Site
from lab.slurm_conf import HOME

FENCE, KEY, NOTES = "etc/fence.sh", "etc/site.key", "fence-notes"


@contextmanager
def pushing(site: Site) -> Iterator[None]:
    """With the site key on both sides."""
    home = site.slurm.home
    key = home / KEY
    key.touch(mode=0o600)
    key.write_text(secrets.token_hex(32), encoding="ascii")
    (home / NOTES).mkdir(mode=0o700, exist_ok=True)
    command = [str(PROGRAM), "generate", "fence-script", "--hooks", f"http://127.0.0.1:{site.addresses.hooks}"]
    command += ["--key-file", f"{HOME}/{KEY}", "--notes", f"{HOME}/{NOTES}", "--slurm-conf", f"{HOME}/etc/slurm.conf"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (home / FENCE).write_text(text, encoding="utf-8")
    (home / FENCE).chmod(0o755)
    site.reconfigure({"hooks": {"siteKeyFile": str(key)}})
    site.slurm.reconfigure({"EpilogSlurmctld": f"{HOME}/{FENCE}"})
    try:
        yield
    finally:
        site.slurm.reconfigure({"EpilogSlurmctld": ""})
        site.reconfigure()
