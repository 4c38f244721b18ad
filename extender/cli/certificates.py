"""`slurm-extender generate certificates`."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from extender.config.values import read_duration

WITHOUT_CRYPTOGRAPHY = (
    "certificates cannot be created: the package cryptography is not installed. "
    "Run `pip install 'slurm-extender[certificates]'`."
)


@click.command(short_help="Create or renew the certificates")
@click.option(
    "--namespace", "-n", default="slurm-extender", show_default=True, help="Namespace of the Secrets and Services."
)
@click.option("--kubeconfig", help="Default: the ServiceAccount in a Pod, the kubeconfig of kubectl elsewhere.")
@click.option("--context", help="A context of the kubeconfig.")
@click.option(
    "--webhook",
    default="slurm-extender-gate",
    show_default=True,
    help="Name of the MutatingWebhookConfiguration of the webhook.",
)
@click.option("--san", "names", multiple=True, metavar="NAME", help="One more name or address of the extender.")
@click.option(
    "--overlap",
    default="24h",
    show_default=True,
    help="Time for which the next authority is trusted before it signs.",
)
@click.option("--renew", is_flag=True, help="Renew every certificate and the next authority.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Write to this folder instead of Secrets.")
@click.option("--dry-run", is_flag=True, help="Print the planned changes, and change nothing.")
def certificates(namespace: str, names: tuple[str, ...], overlap: str, out: Path | None, **given: Any) -> None:
    """Create the certificates of the extender and of kube-scheduler, and renew those that expire soon.

    The command is idempotent: valid certificates stay. See docs/security.md.

    \b
    Examples:
      slurm-extender generate certificates --dry-run
      slurm-extender generate certificates --out certificates/
    """
    # Only here: nothing else needs cryptography, which an installation may lack.
    try:
        from extender.certificates import command  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise click.ClickException(WITHOUT_CRYPTOGRAPHY) from error
    from extender.certificates.renewal import LONGEST_OVERLAP, RenewalOptions, checked_name, checked_namespace  # noqa: PLC0415

    try:
        wait = read_duration(overlap)
    except ValueError as error:
        raise click.UsageError(f"--overlap {overlap}: it {error}; such as 24h") from error
    if wait > LONGEST_OVERLAP.total_seconds():
        raise click.UsageError(f"--overlap {overlap}: it must be at most {LONGEST_OVERLAP.days * 24}h")
    try:
        names, namespace = tuple(map(checked_name, names)), checked_namespace(namespace)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    how: dict[str, Any] = {key: given[key] for key in ("renew", "dry_run", "webhook")}
    order = RenewalOptions(namespace, timedelta(seconds=wait), names, **how)
    now = datetime.fromtimestamp(time.time(), UTC)  # noqa: TID251 - certificates end by the clock of the world
    try:
        if out is not None:
            done = command.in_folder(order, out, now)
        else:
            cluster = command.Cluster(given["kubeconfig"], given["context"], os.environ)
            done = command.in_secrets(order, cluster, now)
    except command.CertificatesError as error:
        raise click.ClickException(str(error)) from error
    for line in done or ["every certificate is valid"]:
        click.echo(line)
