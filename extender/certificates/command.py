"""Run the command from its options: one renewal of the certificates."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from extender.certificates.folder import Folder
from extender.certificates.pair import PairError
from extender.certificates.renewal import Consumers, RenewalOptions, renew
from extender.certificates.secrets import ForeignSecretError, Restarts, Secrets, Webhook
from extender.kube.connection import CredentialsError, connect
from extender.kube.errors import ApiError

SCHEDULER = "slurm-scheduler"


class CertificatesError(Exception):
    """The command failed; the text says what to fix."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The API server and the identity for it, as the configuration's `kubernetes` names them."""

    kubeconfig: str | None
    context: str | None
    environ: Mapping[str, str]


def in_secrets(order: RenewalOptions, cluster: Cluster, now: datetime) -> list[str]:
    """Create and renew certificates in the Secrets of a cluster. Raises CertificatesError."""
    try:
        return asyncio.run(_in_secrets(order, cluster, now))
    except (ApiError, CredentialsError, ForeignSecretError, PairError) as error:
        raise CertificatesError(str(error)) from error


def in_folder(order: RenewalOptions, path: Path, now: datetime) -> list[str]:
    """Create and renew certificates in a folder. Raises CertificatesError."""
    folder = Folder(path)
    try:
        with nullcontext() if order.dry_run else folder.locked():
            return asyncio.run(renew(folder, order, Consumers(), now))
    except (OSError, PairError) as error:
        raise CertificatesError(f"{path}: {error}") from error


async def _in_secrets(order: RenewalOptions, cluster: Cluster, now: datetime) -> list[str]:
    connection = await connect(cluster.kubeconfig, cluster.context, connections=1, environ=cluster.environ)
    try:
        consumers = Consumers(Restarts(connection, order.namespace, SCHEDULER), Webhook(connection, order.webhook))
        return await renew(Secrets(connection, order.namespace), order, consumers, now)
    finally:
        await connection.close()
