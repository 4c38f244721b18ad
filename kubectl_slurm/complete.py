"""`kubectl_complete-slurm`: kubectl calls it with the words of the line, and offers what it prints.

The last line is cobra's directive (kubectl `pkg/cmd/plugin_completion.go`): 4, so that no file names are offered.
"""

from __future__ import annotations

import sys

import click
from click.shell_completion import ShellComplete

from kubectl_slurm.program import main

NO_FILES = ":4"


def complete() -> None:
    """Print what may follow."""
    words = sys.argv[1:] or [""]
    for one in offered(words[:-1], words[-1]):
        click.echo(one)
    click.echo(NO_FILES)


def offered(words: list[str], begun: str) -> list[str]:
    """Return the completions of the word that was begun."""
    found = ShellComplete(main, {}, "kubectl-slurm", "").get_completions(words, begun)
    return [one.value if not one.help else f"{one.value}\t{one.help}" for one in found]
