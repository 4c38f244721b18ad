"""`generate fence-script` and `generate lock-script`: what a site installs on Slurm's nodes."""

from __future__ import annotations

import click

from extender.cli.options import F
from extender.slurm.fence_script import NOTES, installation
from extender.slurm.fence_script import fence_script as text_of_fence_script
from extender.slurm.lock_script import lock_script as text_of_lock_script


def _of_a_node_script(command: F) -> F:
    """Add the options that every script on Slurm's nodes needs."""
    command = click.option(
        "--slurm-conf",
        default="",
        help="Path of slurm.conf, if Slurm's commands do not find it without SLURM_CONF, which slurmctld does not "
        "pass on.",
    )(command)
    command = click.option(
        "--key-file",
        default="/etc/slurm/slurm-extender.key",
        show_default=True,
        help="Path of the site key (hooks.siteKeyFile) on a node; only root and SlurmUser may read it.",
    )(command)
    return click.option(
        "--hooks", required=True, metavar="URL", help="URL of the hooks, as Slurm nodes reach it (hooks.url)."
    )(command)


@click.command("fence-script", short_help="Print the fence script of Slurm's nodes")
@_of_a_node_script
@click.option(
    "--hold",
    type=click.IntRange(4, 12),
    default=8,
    show_default=True,
    help="Maximum seconds for which the Epilog holds a node before it drains it.",
)
@click.option(
    "--notes",
    default=NOTES,
    show_default=True,
    help="Folder on slurmctld's machine, owned by SlurmUser; if slurmctld has a backup, both must share it.",
)
def fence_script(hooks: str, key_file: str, hold: int, notes: str, slurm_conf: str) -> None:
    """Print the fence script: Epilog of nodes with slurmd, PrologSlurmctld and EpilogSlurmctld. See docs/fences.md.

    On stderr it prints the commands and the lines of slurm.conf that install it.

    \b
    Example:
      slurm-extender generate fence-script --hooks https://slurm-extender.example:8000 > fence.sh
    """
    click.echo(text_of_fence_script(hooks, key_file, hold, notes, slurm_conf), nl=False)
    click.echo(installation(key_file, notes), nl=False, err=True)


@click.command("lock-script", short_help="Print the script that locks Nodes of jobs")
@_of_a_node_script
@click.option(
    "--hold",
    type=click.IntRange(1, 30),
    default=5,
    show_default=True,
    help="Maximum seconds for which a job waits until its Node is locked.",
)
def lock_script(hooks: str, key_file: str, hold: int, slurm_conf: str) -> None:
    """Print the Prolog and Epilog that lock the Node of a native job. See docs/nodes.md.

    \b
    Example:
      slurm-extender generate lock-script --hooks https://slurm-extender.example:8000 > lock.sh
    """
    click.echo(text_of_lock_script(hooks, key_file, hold, slurm_conf), nl=False)
