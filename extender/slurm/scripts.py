"""Bash files of this package as one text each: a job's script and an Epilog cannot bring a second file with them."""

from __future__ import annotations

from importlib import resources

_INCLUDED = "post.sh"
_HERE = f"# shellcheck source={_INCLUDED}\n. {_INCLUDED} # put in here when the script is made\n"


def script(name: str) -> str:
    """The text of a script, with what it includes put in."""
    folder = resources.files("extender.slurm")
    text = folder.joinpath(name).read_text(encoding="utf-8")
    _, _, included = folder.joinpath(_INCLUDED).read_text(encoding="utf-8").partition("\n\n")
    return text.replace(_HERE, included)
