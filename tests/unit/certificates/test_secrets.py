"""Certificates in Secrets: nobody else's are touched, and of two runs at a time one begins again."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from extender.certificates.plan import CERTIFICATE, KEY, TRUSTED
from extender.certificates.renewal import Consumers, RenewalOptions, renew
from extender.certificates.secrets import AUTHORITIES, ForeignSecretError, Restarts, Secrets, Webhook, digest
from extender.kube.errors import ApiError
from simulator.kube.rbac import Permission, Rbac
from simulator.kube.resources import DEPLOYMENTS, NAMESPACES, Resource
from simulator.kube.storage import ObjectKey
from tests.builders.fake_api import FakeApi, fake_api
from tests.builders.kustomize import ROOT, documents

pytestmark = pytest.mark.looptime

NAMESPACE = "slurm-extender"
SECRETS = Resource("", "v1", "secrets", "Secret")
WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ORDER = RenewalOptions(NAMESPACE, timedelta(days=1))
NAMES = {ORDER.authority, *ORDER.subjects}


@asynccontextmanager
async def a_cluster() -> AsyncIterator[FakeApi]:
    """With the Deployment and the webhook that the manifests have."""
    async with fake_api(resources=(NAMESPACES, SECRETS, DEPLOYMENTS, WEBHOOKS)) as api:
        meta: dict[str, Any] = {"name": "slurm-scheduler", "namespace": NAMESPACE}
        api.server.create(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"template": {"metadata": {}}}}
        )
        client = {"service": {"name": "slurm-extender-webhook"}}
        api.server.create(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": "slurm-extender-gate"},
                "webhooks": [{"name": "gate.slurm-extender.io", "clientConfig": client}],
            }
        )
        yield api


async def run(api: FakeApi, order: RenewalOptions = ORDER, now: datetime = NOW) -> list[str]:
    consumers = Consumers(
        Restarts(api.connection, NAMESPACE, "slurm-scheduler"), Webhook(api.connection, "slurm-extender-gate")
    )
    return await renew(Secrets(api.connection, NAMESPACE), order, consumers, now)


def secret(api: FakeApi, name: str) -> dict[str, bytes]:
    found = api.server.storage.get(ObjectKey(SECRETS, NAMESPACE, name))
    assert found is not None
    return {key: base64.b64decode(value) for key, value in found["data"].items()}


def everything(api: FakeApi) -> dict[str, dict[str, bytes]]:
    return {name: secret(api, name) for name in NAMES}


def versions(api: FakeApi) -> list[str]:
    return [one["metadata"]["resourceVersion"] for one in api.server.storage.of(SECRETS, "")]


async def test_a_run_makes_secrets_and_lists_who_has_to_know() -> None:
    async with a_cluster() as api:
        said = await run(api)
        made = everything(api)
        trusted = made[ORDER.authority][TRUSTED]
        assert all({CERTIFICATE, KEY} <= data.keys() and data[TRUSTED] == trusted for data in made.values())
        hook = api.server.storage.get(ObjectKey(WEBHOOKS, "", "slurm-extender-gate"))
        assert hook is not None
        assert base64.b64decode(hook["webhooks"][0]["clientConfig"]["caBundle"]) == trusted
        deployment = api.server.storage.get(ObjectKey(DEPLOYMENTS, NAMESPACE, "slurm-scheduler"))
        assert deployment is not None
        assert deployment["spec"]["template"]["metadata"]["annotations"] == {AUTHORITIES: digest(trusted)}
        assert len(said) == 6
        kept = api.server.storage.get(ObjectKey(SECRETS, NAMESPACE, ORDER.authority))
        assert kept is not None
        assert kept["type"] == "kubernetes.io/tls"


async def test_the_next_run_writes_nothing() -> None:
    async with a_cluster() as api:
        await run(api)
        before = versions(api)
        assert await run(api) == []
        assert versions(api) == before


async def test_a_trial_says_the_same_and_writes_nothing() -> None:
    async with a_cluster() as api:
        trial = await run(api, RenewalOptions(NAMESPACE, timedelta(days=1), dry_run=True))
        assert not list(api.server.storage.of(SECRETS, ""))
        assert {one.split(":")[0] for one in trial} == {one.split(":")[0] for one in await run(api)}


async def test_two_runs_at_a_time_end_with_one_authority() -> None:
    async with a_cluster() as api:
        await asyncio.gather(*(run(api) for _ in range(3)))
        made = everything(api)
        assert {data[TRUSTED] for data in made.values()} == {made[ORDER.authority][CERTIFICATE]}
        assert await run(api) == []


def roll_out(api: FakeApi, old_pods: int = 0) -> None:
    """The Deployment's Pods are new ones, but for so many."""

    def done(deployment: dict[str, Any]) -> None:
        seen = deployment["metadata"]["generation"]
        deployment["status"] = {"observedGeneration": seen, "replicas": 1 + old_pods, "updatedReplicas": 1}

    api.server.change(ObjectKey(DEPLOYMENTS, NAMESPACE, "slurm-scheduler"), done)


async def test_the_next_authority_signs_once_no_scheduler_runs_that_does_not_know_it() -> None:
    async with a_cluster() as api:
        await run(api)
        await run(api, RenewalOptions(NAMESPACE, timedelta(days=1), renew=True))
        signs = secret(api, ORDER.authority)[CERTIFICATE]
        for day in range(1, 10):
            roll_out(api, old_pods=1)
            await run(api, now=NOW + timedelta(days=day))
        assert secret(api, ORDER.authority)[CERTIFICATE] == signs
        roll_out(api)
        await run(api, now=NOW + timedelta(days=10))
        assert secret(api, ORDER.authority)[CERTIFICATE] == signs
        await run(api, now=NOW + timedelta(days=11))
        assert secret(api, ORDER.authority)[CERTIFICATE] != signs


async def test_two_renewals_at_a_time_leave_what_the_next_run_calls_good() -> None:
    async with a_cluster() as api:
        await run(api)
        for day in (1, 2, 3, 4):
            order = RenewalOptions(NAMESPACE, timedelta(days=1), renew=day == 1)
            now = NOW + timedelta(days=day)
            await asyncio.gather(*(run(api, order, now) for _ in range(2)))
            roll_out(api)
        assert await run(api, now=NOW + timedelta(days=5)) == []
        assert secret(api, ORDER.authority).keys() == {CERTIFICATE, KEY, TRUSTED}


@pytest.mark.parametrize("lost", range(1, 9))
async def test_a_run_that_is_cut_off_is_finished_by_the_next_one(lost: int) -> None:
    async with a_cluster() as api:
        writes = 0

        def allowed(permission: Permission) -> bool:
            nonlocal writes
            writes += permission.verb in {"create", "update", "patch"}
            return writes < lost or permission.verb == "get"

        api.server.allowed = allowed
        if lost <= 6:
            with pytest.raises(ApiError):
                await run(api)
        api.server.allowed = None
        await run(api)
        made = everything(api)
        assert {data[TRUSTED] for data in made.values()} == {made[ORDER.authority][CERTIFICATE]}
        assert await run(api) == []


async def test_a_certificate_of_another_issuer_is_left_alone() -> None:
    async with a_cluster() as api:
        theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "slurm-extender-tls"}}
        theirs["metadata"]["namespace"] = NAMESPACE  # type: ignore[index]
        api.server.create({**theirs, "data": {CERTIFICATE: base64.b64encode(b"theirs").decode()}})
        with pytest.raises(ForeignSecretError, match=r"Secret slurm-extender/slurm-extender-tls .* of another tool"):
            await run(api)
        assert [one["metadata"]["name"] for one in api.server.storage.of(SECRETS, "")] == ["slurm-extender-tls"]


async def test_where_nothing_else_is_there_no_other_is_notified() -> None:
    async with fake_api(resources=(NAMESPACES, SECRETS, DEPLOYMENTS, WEBHOOKS)) as api:
        assert len(await run(api)) == 4
        assert await run(api) == []


async def test_the_shipped_rights_are_what_it_needs_and_all_that_it_has() -> None:
    component = ROOT / "manifests" / "components" / "certificates"
    roles = documents(component / "rbac.yaml")
    async with a_cluster() as api:
        api.server.rbac = Rbac.of(roles, "slurm-extender-certificates", NAMESPACE)
        await run(api)
        await run(api, RenewalOptions(NAMESPACE, timedelta(days=1), renew=True))
        granted = {
            Permission(verb, group, resource)
            for role in roles
            for rule in role.get("rules", ())
            for verb in rule["verbs"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }
        assert set(api.server.used) == granted
        names = {name for role in roles for rule in role.get("rules", ()) for name in rule.get("resourceNames", ())}
        assert names == NAMES | {"slurm-scheduler", "slurm-extender-gate"}


async def test_kube_scheduler_is_restarted_although_the_webhook_may_not_be_patched() -> None:
    async with a_cluster() as api:
        roles = documents(ROOT / "manifests" / "components" / "certificates" / "rbac.yaml")
        namespaced = [one for one in roles if not one["kind"].startswith("Cluster")]
        api.server.rbac = Rbac.of(namespaced, "slurm-extender-certificates", NAMESPACE)
        with pytest.raises(ApiError, match="mutatingwebhookconfigurations"):
            await run(api)
        deployment = api.server.storage.get(ObjectKey(DEPLOYMENTS, NAMESPACE, "slurm-scheduler"))
        assert deployment is not None
        trusted = secret(api, ORDER.authority)[TRUSTED]
        assert deployment["spec"]["template"]["metadata"]["annotations"] == {AUTHORITIES: digest(trusted)}
