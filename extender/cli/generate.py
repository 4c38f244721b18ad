"""`slurm-extender generate`: what a site installs beside the extender, and the schemas of its files."""

from __future__ import annotations

import json

import click

from extender.cli.certificates import certificates
from extender.cli.cpu_order import cpu_order
from extender.cli.scripts import fence_script, lock_script
from extender.config.schema_keys import CONFIGURATION, POLICY


@click.group(short_help="Generate certificates, scripts and schemas")
def generate() -> None:
    """Generate certificates, scripts for Slurm's nodes, and JSON schemas.

    \b
    Examples:
      slurm-extender generate certificates --dry-run
      slurm-extender generate fence-script --hooks https://slurm-extender.example:8000 > fence.sh
      slurm-extender generate schema > configuration.schema.json
    """


@click.command(short_help="Print the JSON schema of the configuration")
@click.option("--policy", is_flag=True, help="Print the schema of the policy file instead.")
def schema(policy: bool) -> None:
    """Print the JSON schema of the configuration, for editors and for checks before a rollout.

    \b
    Example:
      slurm-extender generate schema --policy > policy.schema.json
    """
    click.echo(json.dumps((POLICY if policy else CONFIGURATION).json_schema, indent=2))


for command in (certificates, cpu_order, fence_script, lock_script, schema):
    generate.add_command(command)
