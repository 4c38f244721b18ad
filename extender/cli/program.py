"""All commands as one program."""

from __future__ import annotations

from importlib.util import find_spec

import click

from extender import __version__
from extender.cli.configuration import check_config, import_config
from extender.cli.doctor import doctor
from extender.cli.generate import generate
from extender.cli.serve import serve
from extender.cli.translate import translate_manifests
from extender.cli.uninstall.command import uninstall

IN_THE_SIMULATOR = ("demo", "simulate")
"""Commands of the package `simulator`, which is installed by an extra of its own and absent from the image."""

SECTIONS = {
    "Run": ("serve",),
    "Check": ("check-config", "doctor", "translate"),
    "Install": (
        "generate certificates",
        "generate cpu-order",
        "generate fence-script",
        "generate lock-script",
        "import-config",
        "uninstall",
        "version",
    ),
    "Explore": IN_THE_SIMULATOR,
    "Schemas": ("generate schema",),
}
"""The commands as `--help` groups them; those of `generate` are listed one by one."""


class Commands(click.Group):
    """The commands of the extender, and those of the simulator where it is installed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the name of every command."""
        return sorted([*super().list_commands(ctx), *(IN_THE_SIMULATOR if find_spec("simulator") else ())])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the simulator only for its own commands: no other command has it in its memory."""
        if cmd_name not in IN_THE_SIMULATOR:
            return super().get_command(ctx, cmd_name)
        if find_spec("simulator") is None:
            raise click.ClickException(
                f'{cmd_name} needs the simulator, which is not installed: pip install "slurm-extender[simulator]"'
            )
        from simulator import commands  # noqa: PLC0415

        return commands.BY_NAME[cmd_name]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their sections."""
        there = set(self.list_commands(ctx))
        for title, paths in SECTIONS.items():
            rows = [(path, self._described(ctx, path)) for path in paths if path.split()[0] in there]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _described(self, ctx: click.Context, path: str) -> str:
        first, _, second = path.partition(" ")
        command = self.get_command(ctx, first)
        if second and isinstance(command, click.Group):
            command = command.get_command(ctx, second)
        return "" if command is None else command.get_short_help_str()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Use 'slurm-extender COMMAND --help' for the options and examples of a command.",
)
@click.version_option(__version__, prog_name="slurm-extender")
def main() -> None:
    """Let Slurm place Kubernetes Pods.

    \b
    Examples:
      slurm-extender check-config config.yaml
      slurm-extender doctor --config config.yaml
      slurm-extender translate pod.yaml
      slurm-extender serve --config config.yaml
    """


@click.command(short_help="Print the version")
def version() -> None:
    """Print the version."""
    click.echo(__version__)


for command in (serve, check_config, import_config, translate_manifests, doctor, generate, uninstall, version):
    main.add_command(command)
