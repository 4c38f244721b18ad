"""All commands as one program."""

from __future__ import annotations

import click

from extender import __version__
from extender.cli.certificates import certificates
from extender.cli.configuration import check_config, config_schema, import_config
from extender.cli.doctor import doctor
from extender.cli.scripts import fence_script, lock_script
from extender.cli.serve import serve
from extender.cli.simulation import demo, simulate
from extender.cli.translate import translate_manifests
from extender.cli.uninstall import uninstall


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
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
    demo,
    simulate,
    doctor,
    fence_script,
    lock_script,
    certificates,
    uninstall,
    version,
):
    main.add_command(command)
