"""`slurm-extender generate certificates`."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from extender.config.values import read_duration


@click.command()
@click.option("--namespace", "-n", default="slurm-extender", show_default=True, help="Whose Secrets and Services.")
@click.option("--kubeconfig", help="Not given: in a Pod its account, else where kubectl looks.")
@click.option("--context", help="A context of the kubeconfig.")
@click.option("--san", "names", multiple=True, metavar="NAME", help="One more name or address of the extender's doors.")
@click.option(
    "--overlap",
    default="24h",
    show_default=True,
    help="How long the next authority is trusted everywhere before it signs.",
)
@click.option("--renew", is_flag=True, help="Make every certificate anew, and the next authority too.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Keep them in this folder instead.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def certificates(namespace: str, names: tuple[str, ...], overlap: str, out: Path | None, **given: Any) -> None:
    """Make the certificates of the extender and of kube-scheduler, and renew those that end soon.

    Run it as often as you like: what is good stays. docs/certificates.md says what is kept where.
    """
    # Only here: nothing else needs the packages behind it.
    from extender.certificates import command  # noqa: PLC0415
    from extender.certificates.renewal import LONGEST_OVERLAP, Order, checked_name, checked_namespace  # noqa: PLC0415

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
    order = Order(namespace, timedelta(seconds=wait), names, renew=given["renew"], dry_run=given["dry_run"])
    now = datetime.fromtimestamp(time.time(), UTC)  # noqa: TID251 - certificates end by the clock of the world
    try:
        if out is not None:
            done = command.in_folder(order, out, now)
        else:
            cluster = command.Cluster(given["kubeconfig"], given["context"], os.environ)
            done = command.in_secrets(order, cluster, now)
    except command.CertificatesError as error:
        raise click.ClickException(str(error)) from error
    for line in done or ["every certificate is good"]:
        click.echo(line)
