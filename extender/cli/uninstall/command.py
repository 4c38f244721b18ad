"""`slurm-extender uninstall`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from extender.cli.options import configured, settings_option
from extender.config.override import from_settings


@click.command(short_help="Remove what the extender wrote or drained")
@click.option("--config", "file", type=click.Path(path_type=Path), help="That of the extender which is taken away.")
@settings_option
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--force", is_flag=True, help="Go on although an extender leads, and lift drains under Pods without job.")
@click.option(
    "--keep-gates", is_flag=True, help="Leave the scheduling gate on waiting Pods, for the next installation."
)
@click.option(
    "--cancel-running", is_flag=True, help="Evict the Pods that run, and cancel their jobs once they are gone."
)
def uninstall(  # noqa: PLR0917 - click names them
    file: Path | None, settings: tuple[str, ...], dry_run: bool, force: bool, keep_gates: bool, cancel_running: bool
) -> None:
    """Release everything: gates, taints, cordons, drains, jobs, registered nodes. See docs/uninstall.md.

    The command is idempotent: run it again to resume. Exit code 1 where something is left.

    \b
    Example:
      slurm-extender uninstall --config config.yaml --dry-run
    """
    configuration = configured(file, from_settings(settings))
    # Only here: imports the Kubernetes client, as `serve` does.
    import asyncio  # noqa: PLC0415

    from extender.cli.uninstall.hand_back import uninstall as run  # noqa: PLC0415
    from extender.cli.uninstall.options import CannotLookError, HandBackOptions, StillLedError  # noqa: PLC0415

    options = HandBackOptions(dry_run, force, keep_gates, cancel_running)
    try:
        clean = asyncio.run(run(configuration, options, click.echo))
    except (StillLedError, CannotLookError) as error:
        raise click.ClickException(str(error)) from error
    if not clean:
        sys.exit(1)
