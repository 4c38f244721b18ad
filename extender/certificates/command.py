"""What the command line calls: from its options to one run."""

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
WEBHOOK = "slurm-extender-gate"


class CertificatesError(Exception):
    """It could not be done; the text says what to mend."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Which API server, and who we are there; as the configuration's `kubernetes` says it."""

    kubeconfig: str | None
    context: str | None
    environ: Mapping[str, str]


def in_secrets(order: RenewalOptions, cluster: Cluster, now: datetime) -> list[str]:
    """Make and renew them in the Secrets of a cluster. Raises CertificatesError."""
    try:
        return asyncio.run(_in_secrets(order, cluster, now))
    except (ApiError, CredentialsError, ForeignSecretError, PairError) as error:
        raise CertificatesError(str(error)) from error


def in_folder(order: RenewalOptions, path: Path, now: datetime) -> list[str]:
    """Make and renew them in a folder. Raises CertificatesError."""
    folder = Folder(path)
    try:
        with nullcontext() if order.dry_run else folder.locked():
            return asyncio.run(renew(folder, order, Consumers(), now))
    except (OSError, PairError) as error:
        raise CertificatesError(f"{path}: {error}") from error


async def _in_secrets(order: RenewalOptions, cluster: Cluster, now: datetime) -> list[str]:
    connection = await connect(cluster.kubeconfig, cluster.context, connections=1, environ=cluster.environ)
    try:
        consumers = Consumers(Restarts(connection, order.namespace, SCHEDULER), Webhook(connection, WEBHOOK))
        return await renew(Secrets(connection, order.namespace), order, consumers, now)
    finally:
        await connection.close()
