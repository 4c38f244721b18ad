"""Find the kubeconfig that kubectl would use: the kubernetes package reads a missing one as an empty one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def missing_kubeconfig(environ: Mapping[str, str]) -> str:
    """Return a sentence if neither KUBECONFIG nor the default place has a file; "": there is one."""
    named = environ.get("KUBECONFIG", "")
    if named:
        there = any(Path(name).is_file() for name in named.split(os.pathsep) if name)
        return "" if there else f"there is no kubeconfig: KUBECONFIG names {named}, which is not there"
    default = Path(environ.get("HOME") or Path.home()) / ".kube" / "config"
    if default.is_file():
        return ""
    return f"there is no kubeconfig: KUBECONFIG is not set, and {default} is not there"
