"""All commands as one program."""

from __future__ import annotations

from importlib.util import find_spec

import click

from extender import __version__
from extender.cli.certificates import certificates
from extender.cli.configuration import check_config, config_schema, import_config
from extender.cli.doctor import doctor
from extender.cli.scripts import fence_script, lock_script
from extender.cli.serve import serve
from extender.cli.translate import translate_manifests
from extender.cli.uninstall.command import uninstall

IN_THE_SIMULATOR = ("demo", "simulate")
"""Commands of the package `simulator`, which is installed by an extra of its own and absent from the image."""


class Commands(click.Group):
    """The commands of the extender, and those of the simulator where it is installed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every name that `--help` lists."""
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


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="slurm-extender")
def main() -> None:
    """Slurm places Kubernetes Pods."""


@click.command()
def version() -> None:
    """Print the version."""
    click.echo(__version__)


for command in (
    serve,
    check_config,
    config_schema,
    import_config,
    translate_manifests,
    doctor,
    fence_script,
    lock_script,
    certificates,
    uninstall,
    version,
):
    main.add_command(command)
