"""`check-config` and `import-config`: a configuration before it is used."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import click

from extender.cli.options import configured, policy_of, policy_option, settings_option
from extender.cli.yaml_output import as_yaml
from extender.config.load import from_settings
from extender.config.peers.install import InstallForm, installable, steps
from extender.config.peers.recognise import NotRecognised, imported
from extender.domain.printable import printable


@click.command("check-config", short_help="Check a configuration and its policy file")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--config", "option", type=click.Path(path_type=Path), help="The configuration, instead of FILE.")
@settings_option
@policy_option
@click.option("--show", is_flag=True, help="Print the configuration in force, defaults included, without its secrets.")
def check_config(
    file: Path | None, option: Path | None, settings: tuple[str, ...], policy: Path | None, show: bool
) -> None:
    """Check a configuration, with the environment, and its policy file. Every fault is printed with its line.

    Exit code 2 where there are faults.

    \b
    Examples:
      slurm-extender check-config config.yaml
      slurm-extender check-config --config config.yaml --set slurm.killWait=60s --show
    """
    if (file is None) == (option is None):
        raise click.UsageError("name the configuration once: as FILE or by --config")
    file = file or option
    configuration = configured(file, from_settings(settings))
    policy_of(configuration, policy)
    if show:
        click.echo(as_yaml(configuration.model_dump(mode="json")), nl=False)
    else:
        click.echo(f"{file}: OK")


@click.command("import-config", short_help="Convert a SUNK or slurm-bridge configuration")
@click.argument("files", nargs=-1, required=True, type=click.File("r", encoding="utf-8"))
@click.option(
    "--for",
    "form",
    type=click.Choice([str(one) for one in InstallForm]),
    help="Print values of the chart, or a kustomization, instead of the configuration alone.",
)
def import_config(files: tuple[TextIO, ...], form: InstallForm | None) -> None:
    """Convert configurations of SUNK or slurm-bridge in FILES, and print the result. `-` reads standard input.

    FILES hold the flags of SUNK's scheduler, as text or in its Deployment, Helm values of SUNK or slurm-bridge, or
    slurm-bridge's ConfigMap. Standard error names each key without a counterpart. See docs/migrate.md.

    \b
    Example:
      kubectl get deployment SCHEDULER -o yaml | slurm-extender import-config - > config.yaml
      slurm-extender import-config --for helm slurm-bridge-values.yaml > values.yaml
    """
    try:
        plan = imported([(file.name, file.read()) for file in files])
    except (NotRecognised, UnicodeDecodeError) as error:
        raise click.ClickException(printable(str(error))) from error
    click.echo(as_yaml(plan.document) if form is None else installable(InstallForm(form), plan, as_yaml), nl=False)
    for note in plan.notes:
        click.echo(printable(note), err=True)
    for step in () if form is None else steps(InstallForm(form), plan):
        click.echo(printable(f"to install: {step}"), err=True)
