"""`slurm-extender serve`."""

from __future__ import annotations

from pathlib import Path

import click

from extender.cli.options import F, configured, settings_option
from extender.config.load import from_settings
from extender.config.peers.sunk import SUNK_FLAGS, from_flags


def _sunk_flags(command: F) -> F:
    for flag in reversed(SUNK_FLAGS):
        command = click.option(
            f"--{flag.name}", flag.name.replace("-", "_"), default="", help=f"{flag.help} As in SUNK."
        )(command)
    return command


@click.command(short_help="Run the extender")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="The configuration; see docs/reference/configuration.md.",
)
@settings_option
@_sunk_flags
@click.option(
    "--dry-run",
    is_flag=True,
    help="Translate Pods, and log and count the jobs that would be submitted. Submit and write nothing.",
)
def serve(file: Path | None, settings: tuple[str, ...], dry_run: bool, **sunk: str) -> None:
    """Run the extender until SIGTERM or SIGINT.

    \b
    Examples:
      slurm-extender serve --config config.yaml
      slurm-extender serve --config config.yaml --dry-run
    """
    given = {name.replace("_", "-"): text for name, text in sunk.items()}
    configuration = configured(file, from_flags(given) + from_settings(settings))
    # Only here: the Kubernetes client takes half a second to import, which no other command should wait for.
    from extender.server.life import StartError  # noqa: PLC0415
    from extender.server.process import run  # noqa: PLC0415

    try:
        run(configuration, dry=dry_run)
    except StartError as error:
        raise click.ClickException(str(error)) from error
