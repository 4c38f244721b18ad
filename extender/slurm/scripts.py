"""Bash files of this package as one text each: a job's script and an Epilog cannot bring a second file with them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType

_INCLUDED = ("site.sh", "post.sh")
"""In the order in which they are put in: the first one includes the second."""


def script(name: str, settings: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the text of a script, with what it includes put in, and these variables at its head set."""
    folder = resources.files("extender.slurm")
    text = folder.joinpath(name).read_text(encoding="utf-8")
    for file in _INCLUDED:
        _, _, included = folder.joinpath(file).read_text(encoding="utf-8").partition("\n\n")
        text = text.replace(f"# shellcheck source={file}\n. {file} # put in here when the script is made\n", included)
    for variable, value in settings.items():
        before, start, rest = text.partition(f"\n{variable}=")
        _, comment, after = rest.partition(" #")
        text = f"{before}{start}{shlex.quote(value)}{comment}{after}"
    return text
