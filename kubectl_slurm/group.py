"""The program as a group of commands that behaves as kubectl's own do."""

from __future__ import annotations

from typing import Any

import click

from extender.domain.printable import printable
from kubectl_slurm.flags import values_of_flags

INTERRUPTED = 130
"""128 and SIGINT, as a shell counts."""


class Plugin(click.Group):
    """Takes the flags of a command before its name, too, and ends quietly on Ctrl-C."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Of `-n there why web` make `why -n there web`."""
        return super().parse_args(ctx, behind_the_command(args, values_of_flags()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except click.UsageError:
            raise  # of words that the caller wrote
        except click.ClickException as error:
            raise click.ClickException(printable(error.message)) from error


def behind_the_command(words: list[str], flags: dict[str, bool]) -> list[str]:
    """The words with the flags that stand first behind the first word that is none; as they are where that is unclear.

    `flags` says of each spelling whether a value follows.
    """
    at = 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        name, given, _ = word.partition("=")
        if not word.startswith("--") and word[:2] in flags and len(word) > 2:  # -nthere, -n=there
            name, given = word[:2], "="
        if name not in flags:
            return words
        at += 2 if flags[name] and not given else 1
    if at == 0 or at >= len(words):
        return words
    return [words[at], *words[:at], *words[at + 1 :]]
