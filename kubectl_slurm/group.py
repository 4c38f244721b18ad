"""The program and its commands, which behave as kubectl's own do."""

from __future__ import annotations

from typing import Any

import click

from extender.domain.printable import printable
from kubectl_slurm.flags import CONNECTION, OF_PODS, connection_options, values_of_flags

INTERRUPTED = 130
"""128 and SIGINT, as a shell counts."""


PROGRAM, EXECUTABLE = "kubectl slurm", "kubectl-slurm"


class PluginCommand(click.Command):
    """A command whose help leaves out the flags of the connection, as kubectl's do: `options` lists them."""

    left_out = CONNECTION

    def options_in_help(self) -> list[click.Option]:
        """Return the flags that matter to this command."""
        options = (one for one in self.params if isinstance(one, click.Option))
        return [one for one in options if one.name not in self.left_out]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags that matter to this command."""
        shown = [*self.options_in_help(), self.get_help_option(ctx)]
        records = [record for one in shown if one is not None and (record := one.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say where the other flags are listed."""
        formatter.write_paragraph()
        formatter.write_text(f'Use "{PROGRAM} options" for a list of the flags that every command takes.')


class NodeCommand(PluginCommand):
    """A command about Nodes, which are in no namespace."""

    left_out = CONNECTION | OF_PODS


class OptionsCommand(click.Command):
    """`options` itself."""


def flags_help(context: click.Context) -> str:
    """Return the flags of the connection as help shows them."""
    formatter = context.make_formatter()
    with formatter.section("The following options can be passed to any command"):
        formatter.write_dl([record for one in connection_options() if (record := one.get_help_record(context))])
    return formatter.getvalue().strip()


class Plugin(click.Group):
    """Takes the flags of a command before its name, too, and ends quietly on Ctrl-C."""

    command_class = PluginCommand

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the program under the name by which kubectl's users call it."""
        return super().main(*args, **{"prog_name": PROGRAM, "complete_var": "_KUBECTL_SLURM_COMPLETE", **extra})

    def _main_shell_completion(self, ctx_args: Any, prog_name: str, complete_var: str | None = None) -> None:
        """Complete the executable: a shell knows no program of two words."""
        del prog_name
        super()._main_shell_completion(ctx_args, EXECUTABLE, complete_var)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Turn `-n there why web` into `why -n there web`."""
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
    """Move leading flags behind the first word that is no flag; leave the words unchanged if that is unclear.

    `flags` maps each spelling to whether a value follows.
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
