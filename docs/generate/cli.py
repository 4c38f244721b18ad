"""Print `docs/reference/cli.md` from the commands of `slurm-extender` and `kubectl slurm`.

Run from the top of the repository: `python -m docs.generate.cli > docs/reference/cli.md`
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator

import click

from extender.cli.program import SECTIONS
from extender.cli.program import main as service
from kubectl_slurm.flags import connection_options
from kubectl_slurm.group import PROGRAM, PluginCommand
from kubectl_slurm.program import main as plugin

_HEAD = """\
# Commands

<!-- Printed by `python -m docs.generate.cli` from `extender/cli`, `simulator/commands.py` and `kubectl_slurm`. -->

After reading this page you know every command, its arguments and its options. `--help` of a command prints the same.
Exit codes: 0 success; 1 failure; 2 invalid command line; 130 interrupted.

"""

_OPTIONS = "\n| option | default | |\n|---|---|---|\n"
_HELP = ["-h", "--help"]
"""The same as in the programs: click remembers in a command the first names that it is given."""

_NOT_LISTED = frozenset({"help", "version"})


def render() -> str:
    """The whole page, with a newline at its end."""
    parts = [_HEAD, "## slurm-extender\n\n| to | command |\n|---|---|\n"]
    with click.Context(service, info_name="slurm-extender", help_option_names=_HELP) as context:
        names = [path for paths in SECTIONS.values() for path in paths]
        for section, paths in SECTIONS.items():
            links = ", ".join(f"[{path}](#slurm-extender-{path.replace(' ', '-')})" for path in paths)
            parts.append(f"| {section.lower()} | {links} |\n")
        for name in names:
            command = _found(context, name)
            parts += _command(command, f"slurm-extender {name}", command.params)
    parts.append(f"\n## {PROGRAM}\n\n[{PROGRAM}](../kubectl-slurm.md) has roles, output and examples.\n")
    with click.Context(plugin, info_name=PROGRAM, help_option_names=_HELP) as context:
        for name in plugin.list_commands(context):
            command = plugin.commands[name]
            listed = command.options_in_help() if isinstance(command, PluginCommand) else command.params
            parts += _command(command, f"{PROGRAM} {name}", listed)
    parts.append(f"\n### Flags of every command of {PROGRAM}\n{_OPTIONS}")
    parts += [_option(one) for one in connection_options()]
    return "".join(parts)


def _found(context: click.Context, path: str) -> click.Command:
    first, _, second = path.partition(" ")
    command = service.get_command(context, first)
    if second and isinstance(command, click.Group):
        command = command.get_command(context, second)
    if command is None:
        raise ValueError(f"SECTIONS names {path}, which is no command")
    return command


def _command(command: click.Command, title: str, listed: Iterable[click.Parameter]) -> Iterator[str]:
    yield f"\n### {title}\n\n"
    own = (one for one in command.params if isinstance(one, click.Argument) and one.type is not click.UNPROCESSED)
    arguments = " ".join(map(_argument, own))
    yield f"    {title} [OPTIONS]{f' {arguments}' if arguments else ''}\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            lines = paragraph.removeprefix("\b").strip("\n").splitlines()
            shown = [line.strip() for line in lines if not line.strip().startswith("Example")]
            yield "\nExamples:\n\n" + "".join(f"    {line}\n" for line in shown)
        else:
            yield f"\n{' '.join(paragraph.split())}\n"
    options = [
        one for one in listed if isinstance(one, click.Option) and one.name not in _NOT_LISTED and not one.hidden
    ]
    if options:
        yield _OPTIONS
        yield from map(_option, options)


def _argument(argument: click.Argument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    if argument.metavar is None and argument.nargs == -1:
        name = f"{name}..."
    return name if argument.required or argument.metavar else f"[{name}]"


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{one}`" for one in (*option.opts, *option.secondary_opts))
    if not option.is_flag and isinstance(option.type, click.Choice):
        names += f" {', '.join(map(str, option.type.choices))}"
    elif not option.is_flag:
        names += f" {option.metavar or option.type.name.upper()}"
    default = option.default
    shown = f"`{default}`" if isinstance(default, str | int | float) and default != "" and not option.is_flag else ""
    text = " ".join((option.help or "").split()).replace("|", "\\|")
    needed = "Required. " if option.required else ""
    return f"| {names} | {shown} | {needed}{text} |\n"


if __name__ == "__main__":
    sys.stdout.write(render())
