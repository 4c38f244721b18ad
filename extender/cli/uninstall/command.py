"""`slurm-extender uninstall`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from extender.cli.options import configured, settings_option
from extender.config.load import from_settings
from extender.domain.printable import printable


@click.command(short_help="Remove what the extender wrote or drained")
@click.option("--config", "file", type=click.Path(path_type=Path), help="Configuration of the installation to remove.")
@settings_option
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
@click.option("--force", is_flag=True, help="Run although an extender leads, and remove all drains.")
@click.option(
    "--keep-gates", is_flag=True, help="Leave the scheduling gate on waiting Pods, for the next installation."
)
@click.option(
    "--cancel-running", is_flag=True, help="Evict the Pods that run, and cancel their jobs once they are gone."
)
def uninstall(  # noqa: PLR0917 - click names them
    file: Path | None, settings: tuple[str, ...], dry_run: bool, force: bool, keep_gates: bool, cancel_running: bool
) -> None:
    """Remove everything slurm-extender created in Kubernetes and Slurm: gates, taints, jobs, drains, nodes.

    The command is idempotent: run it again to resume. Exit code 1 if an object needs action. See docs/operations.md.

    \b
    Example:
      slurm-extender uninstall --config config.yaml --dry-run
    """
    configuration = configured(file, from_settings(settings))
    # Only here: imports the Kubernetes client, as `serve` does.
    import asyncio  # noqa: PLC0415

    from extender.cli.uninstall.options import InventoryError, LeaderActiveError, UninstallOptions  # noqa: PLC0415
    from extender.cli.uninstall.removal import uninstall as run  # noqa: PLC0415

    options = UninstallOptions(dry_run, force, keep_gates, cancel_running)
    try:
        # Names, schedulers and reasons are what users wrote: lines of theirs must not look like those of the command.
        clean = asyncio.run(run(configuration, options, lambda line: click.echo(printable(line))))
    except (LeaderActiveError, InventoryError) as error:
        raise click.ClickException(printable(str(error))) from error
    if not clean:
        sys.exit(1)
