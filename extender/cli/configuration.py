"""`check-config`, `config-schema` and `import-config`: a configuration before it is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

import click

from extender.cli.options import configured, policy_of, policy_option, settings_option
from extender.cli.yaml_output import as_yaml
from extender.config.keys import CONFIGURATION, POLICY
from extender.config.override import from_settings
from extender.config.peers.recognise import NotRecognised, imported


@click.command("check-config")
@click.argument("file", type=click.Path(path_type=Path))
@settings_option
@policy_option
@click.option("--show", is_flag=True, help="Print the configuration in force, defaults included, without its secrets.")
def check_config(file: Path, settings: tuple[str, ...], policy: Path | None, show: bool) -> None:
    """Say everything that is wrong with a configuration and its policy file, environment included."""
    configuration = configured(file, from_settings(settings))
    policy_of(configuration, policy)
    if show:
        click.echo(as_yaml(configuration.model_dump(mode="json")), nl=False)
    else:
        click.echo(f"{file}: good")


@click.command("config-schema")
@click.option("--policy", is_flag=True, help="That of the policy file instead.")
def config_schema(policy: bool) -> None:
    """Print the JSON schema of the configuration."""
    click.echo(json.dumps((POLICY if policy else CONFIGURATION).json_schema, indent=2))


@click.command("import-config")
@click.argument("files", nargs=-1, required=True, type=click.File("r", encoding="utf-8"))
def import_config(files: tuple[TextIO, ...]) -> None:
    """Print the configuration that does what those of SUNK or slurm-bridge in FILES did. `-` reads standard input.

    Understood are the flags of SUNK's scheduler, as text or in its Deployment, Helm values of SUNK and slurm-bridge,
    and slurm-bridge's ConfigMap. What has no counterpart is said on standard error, key by key. docs/migrate.md goes
    through it.
    """
    try:
        plan = imported([(file.name, file.read()) for file in files])
    except (NotRecognised, UnicodeDecodeError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(as_yaml(plan.document), nl=False)
    for note in plan.notes:
        click.echo(note, err=True)
