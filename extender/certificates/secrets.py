"""Store certificates in Secrets, and update the webhook configuration and the Deployment that need the authorities.

Each write has the resource version that was read, so that of two concurrent runs one is refused and starts again
 (`apiserver/pkg/registry/generic/registry/store.go`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from extender.certificates.plan import CERTIFICATE, KEY, Data
from extender.kube.connection import MERGE_PATCH, ApiConnection
from extender.kube.errors import ApiUnavailable, NotFound

MANAGED_BY, MANAGER = "app.kubernetes.io/managed-by", "slurm-extender-certificates"
LABELS = {
    "app.kubernetes.io/name": "slurm-extender-certificates",
    "app.kubernetes.io/component": "certificates",
    "app.kubernetes.io/part-of": "slurm-extender",
    MANAGED_BY: MANAGER,
}

AUTHORITIES = "slurm-extender.io/authorities"
"""Annotation of a Pod template: a digest of the authorities that its Pods read at their start."""


class ForeignSecretError(Exception):
    """A Secret of this name holds a certificate of another author; the text says what to do."""


@dataclass(frozen=True, slots=True)
class StoredData:
    """The data under a name, and the version for the next write."""

    data: Data = field(default_factory=dict)
    whole: dict[str, Any] | None = None


class Secrets:
    """The Secrets of a namespace; reads and writes raise ApiError, `Conflict` if another write was first."""

    def __init__(self, connection: ApiConnection, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/secrets"

    def place(self, name: str) -> str:
        """Return the name for messages."""
        return f"secret/{name}"

    async def read(self, name: str) -> StoredData:
        """Return the stored data. Raises ForeignSecretError for a certificate that this command did not make."""
        whole = await _get(self._connection, f"{self._path}/{name}")
        if whole is None:
            return StoredData()
        try:
            data = {key: base64.b64decode(value) for key, value in (whole.get("data") or {}).items()}
            labels = whole["metadata"].get("labels") or {}
        except (binascii.Error, TypeError, LookupError, AttributeError) as error:
            raise ApiUnavailable(f"Secret {self._namespace}/{name} cannot be read: {error!r}") from error
        if (data.get(CERTIFICATE) or data.get(KEY)) and labels.get(MANAGED_BY) != MANAGER:
            raise ForeignSecretError(
                f"Secret {self._namespace}/{name} holds a certificate of another tool: it has no label "
                f"{MANAGED_BY}={MANAGER}. Delete the Secret, or renew its certificate by that tool"
            )
        return StoredData(data, whole)

    async def write(self, name: str, before: StoredData, data: Data) -> None:
        """Create the Secret, or replace it if it is still `before`."""
        whole = before.whole or {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
        meta = {**whole.get("metadata", {}), "name": name, "namespace": self._namespace}
        meta["labels"] = {**(meta.get("labels") or {}), **LABELS}
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        body = {**whole, "metadata": meta, "data": encoded}
        if before.whole is None:
            await self._connection.request("POST", self._path, body=body)
        else:
            await self._connection.request("PUT", f"{self._path}/{name}", body=body)


class Progress(StrEnum):
    """The progress of a Deployment's Pods in reading the current authorities."""

    ABSENT = "absent"
    """There is no such Deployment."""

    STALE = "stale"
    UNDERWAY = "underway"
    """Such Pods are being created; older ones may still run."""

    DONE = "done"


class Restarts:
    """A Deployment whose Pods read authorities only at their start, as kube-scheduler does (`transport.go`)."""

    def __init__(self, connection: ApiConnection, namespace: str, name: str) -> None:
        self._connection = connection
        self._path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"

    async def progress(self, trusted: bytes) -> Progress:
        """Return whether its Pods were made to read these. Raises ApiError."""
        whole = await _get(self._connection, self._path)
        if whole is None:
            return Progress.ABSENT
        try:
            metadata = whole["spec"]["template"].get("metadata") or {}
            if (metadata.get("annotations") or {}).get(AUTHORITIES) != digest(trusted):
                return Progress.STALE
            return Progress.DONE if _rolled_out(whole) else Progress.UNDERWAY
        except (LookupError, TypeError, AttributeError) as error:
            raise ApiUnavailable(f"the Deployment at {self._path} cannot be read: {error!r}") from error

    async def restart(self, trusted: bytes) -> None:
        """Replace its Pods by a rollout. Raises ApiError."""
        template = {"metadata": {"annotations": {AUTHORITIES: digest(trusted)}}}
        patch = {"spec": {"template": template}}
        await self._connection.request("PATCH", self._path, body=patch, content_type=MERGE_PATCH)


class Webhook:
    """A MutatingWebhookConfiguration with the authorities by which the API server verifies the extender."""

    def __init__(self, connection: ApiConnection, name: str) -> None:
        self._connection = connection
        self._path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{name}"

    async def trust(self, trusted: bytes, *, dry_run: bool) -> bool:
        """Store the authorities; return whether they changed. Raises ApiError."""
        whole = await _get(self._connection, self._path)
        if whole is None:
            return False
        wanted = base64.b64encode(trusted).decode()
        try:
            clients = [one["clientConfig"] for one in whole["webhooks"]]
            stale = [client for client in clients if client.get("caBundle") != wanted]
            for client in stale:
                client["caBundle"] = wanted
        except (LookupError, TypeError, AttributeError) as error:
            raise ApiUnavailable(f"the webhooks at {self._path} cannot be read: {error!r}") from error
        if stale and not dry_run:
            await self._connection.request("PUT", self._path, body=whole)
        return bool(stale)


def digest(trusted: bytes) -> str:
    """Return a digest of the authorities."""
    return hashlib.sha256(trusted).hexdigest()[:16]


def _rolled_out(deployment: dict[str, Any]) -> bool:
    """Return whether no Pod of another template is left (`kubectl/pkg/polymorphichelpers/rollout_status.go`)."""
    status = deployment.get("status") or {}
    wanted = int(deployment["spec"].get("replicas", 1))
    updated = int(status.get("updatedReplicas") or 0)
    seen = int(status.get("observedGeneration") or 0) >= int(deployment["metadata"].get("generation") or 0)
    return seen and updated >= wanted and int(status.get("replicas") or 0) <= updated


async def _get(connection: ApiConnection, path: str) -> dict[str, Any] | None:
    try:
        answer = await connection.request("GET", path)
    except NotFound:
        return None
    try:
        found: dict[str, Any] = json.loads(answer.body)
    except ValueError as error:
        raise ApiUnavailable(f"GET {path}: the answer is not JSON: {error}") from error
    return found
