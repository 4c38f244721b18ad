"""Ask the API server as the user who runs the doctor; some facts need the rights of an administrator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from extender.config.document import ExtenderConfiguration
from extender.doctor.checks.kubernetes import OWN, rights_in
from extender.doctor.facts import AdmissionObjects, Json, KubeFacts, Leader, Right, ServedPodGroups, Server
from extender.doctor.tools import Tools
from extender.domain.gangs.pod_groups import POD_GROUP_KINDS
from extender.domain.views import PodView
from extender.domain.wellknown import SCHEDULER_NAME, SCHEDULING_ADDRESS
from extender.kube.connection import ApiConnection
from extender.kube.errors import ApiError, ApiUnavailable, Forbidden, NotFound, Unauthorized
from extender.kube.listing import list_all
from extender.kube.pod_groups import PLURAL
from extender.kube.pod_reads import pods_path
from extender.kube.served import ServedKind
from extender.kube.wire.stream import NODE, POD

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io"
ACCOUNT = "system:serviceaccount:{namespace}:slurm-extender"
"""The extender's account in the shipped manifests."""

AT_A_TIME = 8


async def gather_kubernetes(config: ExtenderConfiguration, tools: Tools) -> KubeFacts:
    """Read everything, or return why the API server cannot be reached."""
    connection = tools.kubernetes
    if connection is None:
        return KubeFacts(Server(error=tools.no_kubernetes))
    try:
        began = tools.clock.wall()
        answer = await connection.request("GET", "/version")
        between = (began + tools.clock.wall()) / 2
    except ApiError as error:
        return KubeFacts(Server(url=connection.url, error=str(error)))
    if not json_of(answer.body):
        error_text = f"{connection.url}: GET /version: {answer.body[:60]!r} is not the answer of an API server"
        return KubeFacts(Server(url=connection.url, error=error_text))
    user = await _user(connection)
    version = str(json_of(answer.body).get("gitVersion", ""))
    namespace = config.leader_election.namespace
    themselves = user.startswith("system:serviceaccount:")
    account = user if themselves else ACCOUNT.format(namespace=namespace)
    reviewed_account = "" if themselves else account
    may, why = await reviewed_rights(connection, config, reviewed_account, rights_in(config.scope))
    return KubeFacts(
        server=Server(connection.url, version, user),
        ahead_s=_ahead(answer.headers.get("date", ""), between),
        nodes=await _listed(connection, "/api/v1/nodes", NODE),
        pods=await _pods(connection, config.scope.read_namespaces),
        account=account,
        may=may,
        why_not=why,
        admission=await _admission(connection),
        leaders=await _leaders(connection, tools.clock.wall()),
        pod_groups=await _pod_groups(connection, config, reviewed_account),
    )


async def items(connection: ApiConnection, path: str) -> list[Json] | None:
    """Return the items of a list; `None`: no access, []: there is no such kind. Raises ApiError."""
    try:
        answer = await connection.request("GET", path)
    except (Forbidden, Unauthorized):
        return None
    except NotFound:
        return []
    listed = json_of(answer.body)
    if "items" not in listed:
        raise ApiUnavailable(f"GET {path}: the answer is no list: {answer.body[:60]!r}")
    return [one for one in listed["items"] or () if isinstance(one, dict)]


async def _user(connection: ApiConnection) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await connection.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=body)
    except ApiError:
        return ""
    return str(((json_of(answer.body).get("status") or {}).get("userInfo") or {}).get("username", ""))


async def reviewed_rights(
    connection: ApiConnection, config: ExtenderConfiguration, account: str, rights: Sequence[Right]
) -> tuple[dict[Right, bool] | None, str]:
    """Review these rights of `account`, "": of the user who asks."""
    election = config.leader_election
    gate = asyncio.Semaphore(AT_A_TIME)
    kind = "SubjectAccessReview" if account else "SelfSubjectAccessReview"

    async def may(right: Right) -> tuple[Right, bool]:
        namespace = election.namespace if right.namespace == OWN else right.namespace
        name = right.name.replace("{lease}", election.lease_name)
        resource, _, part = right.resource.partition("/")
        wanted = {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": part,
            "namespace": namespace,
            "name": name,
        }
        spec: dict[str, Any] = {"resourceAttributes": {key: value for key, value in wanted.items() if value}}
        if account:
            parts = account.split(":")
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{parts[2]}", "system:authenticated"]
            spec |= {"user": account, "groups": groups}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        async with gate:
            answer = await connection.request("POST", f"{AUTHORIZATION}/{kind.lower()}s", body=body)
        named = Right(right.verb, right.group, right.resource, right.purpose, namespace, name)
        return named, bool((json_of(answer.body).get("status") or {}).get("allowed"))

    try:
        return dict(await asyncio.gather(*(may(right) for right in rights))), ""
    except ApiError as error:
        return None, str(error)


async def _pod_groups(
    connection: ApiConnection, config: ExtenderConfiguration, account: str
) -> tuple[ServedPodGroups, ...] | None:
    found = []
    for kind in POD_GROUP_KINDS:
        try:
            await ServedKind(connection, kind.api, kind.versions, PLURAL).path()
        except NotFound:
            found.append(ServedPodGroups(kind.api, served=False))
            continue
        except ApiError:
            return None
        wanted = [Right(verb, kind.api, PLURAL, "gangs of its PodGroups wait") for verb in ("list", "watch")]
        may, _why = await reviewed_rights(connection, config, account, wanted)
        found.append(ServedPodGroups(kind.api, True, None if may is None else all(may.values())))
    return tuple(found)


async def _listed(connection: ApiConnection, path: str, kind: Any) -> Any:
    try:
        return (await list_all(connection, path, kind, lambda view: view)).views
    except ApiError:
        return None


async def _pods(connection: ApiConnection, namespaces: Sequence[str] | None) -> tuple[PodView, ...] | None:
    """Return the Pods that the extender reads; `None`: no access to some of them."""
    found: list[PodView] = []
    for path in ("/api/v1/pods",) if namespaces is None else map(pods_path, namespaces):
        some = await _listed(connection, path, POD)
        if some is None:
            return None
        found += some
    return tuple(found)


async def _admission(connection: ApiConnection) -> AdmissionObjects:
    async def of(plural: str) -> Sequence[Json] | None:
        found: list[Json] = []
        for version in ("v1", "v1beta1"):
            try:
                listed = await items(connection, f"{ADMISSION}/{version}/{plural}")
            except ApiError:
                return None
            if listed is None:
                return None
            found = found or listed
        return found

    return AdmissionObjects(
        policies=await of("mutatingadmissionpolicies"),
        bindings=await of("mutatingadmissionpolicybindings"),
        webhooks=await of("mutatingwebhookconfigurations"),
    )


async def _leaders(connection: ApiConnection, now: float) -> tuple[Leader, ...] | None:
    try:
        leases = await items(connection, "/apis/coordination.k8s.io/v1/leases")
    except ApiError:
        return None
    if leases is None:
        return None
    found = []
    for lease in leases:
        meta, spec = lease.get("metadata") or {}, lease.get("spec") or {}
        annotations = meta.get("annotations") or {}
        if SCHEDULING_ADDRESS not in annotations and SCHEDULER_NAME not in annotations:
            continue
        renewed = _instant(str(spec.get("renewTime") or ""))
        lasts = float(spec.get("leaseDurationSeconds") or 0)
        alive = bool(spec.get("holderIdentity")) and renewed is not None and now - renewed < max(lasts, 1.0) + 5.0
        name = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
        found.append(
            Leader(name, str(spec.get("holderIdentity") or ""), str(annotations.get(SCHEDULER_NAME, "")), alive)
        )
    return tuple(found)


def _instant(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _ahead(date: str, now: float) -> float | None:
    try:
        # The header has whole seconds, cut off.
        return parsedate_to_datetime(date).timestamp() + 0.5 - now
    except (ValueError, TypeError):
        return None


def json_of(body: bytes) -> dict[str, Any]:
    """Decode an answer; {} if it is no object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
