"""The doctor looks at a whole simulated cluster with an extender that runs there, and at what is broken in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from tempfile import NamedTemporaryFile

import httpx
import pytest
import yaml

from extender.assembly.io_context import LoopClock
from extender.config.load import from_environment, parse
from extender.doctor.finding import Finding, Verdict
from extender.doctor.gather.deployments import gather_configuration
from extender.doctor.run import ExaminationInputs, examine
from extender.doctor.tools import ONCE, Tools
from extender.domain.nodes.fence_evidence import FenceProofs, FenceScript
from extender.domain.wellknown import FENCE_EVIDENCE, GATE
from extender.kube.connection import connect_plainly
from simulator.cluster import CLUSTER
from simulator.kube.objects import Json, set_condition
from simulator.kube.resources import LEASES, Resource
from simulator.kube.storage import ObjectKey
from simulator.network.aiohttp_connector import MemoryConnector
from simulator.network.httpcore_backend import http_transport
from slurmclient import SlurmClient, StaticToken
from slurmclient.auth import TokenSource
from tests.builders.kustomize import CORE, ROOT, of_kind
from tests.builders.process_site import NAMES, Site, a_site
from tests.builders.resource_claims import DEVICE_MAP, DRIVER, resources_of, with_devices
from tests.unit.doctor.test_settings import GOOD

pytestmark = pytest.mark.looptime

OK, WARNING, ERROR, SKIPPED = Verdict
ELECTED = "leaderElection: {enabled: true}\n"
SLURM_CONF = "\n".join(f"{key}={value}" for key, value in GOOD.items())
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICES = Resource("", "v1", "services", "Service")
ADMINISTRATORS = (
    SECRETS,
    SERVICES,
    Resource("", "v1", "configmaps", "ConfigMap"),
    *(
        Resource("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=False)
        for kind in ("MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration")
    ),
    Resource("admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", False),
)
"""Kinds that only an administrator looks at."""


@asynccontextmanager
async def installed(changed: str = ELECTED) -> AsyncIterator[Site]:
    """A cluster with our manifests, as far as there are kinds for them, an extender and a Pod that it placed."""
    with NamedTemporaryFile("w") as site_key:
        site_key.write("the site's own key")
        site_key.flush()
        async with _installed(changed, site_key.name) as site:
            yield site


@asynccontextmanager
async def _installed(changed: str, site_key: str) -> AsyncIterator[Site]:
    async with a_site() as site:
        kube = site.kube
        site.config = site.config.replace("key: secret", f"key: secret, siteKeyFile: {site_key}")
        site.config += f"scheduler: {{clusterId: {CLUSTER}}}\n"
        site.slurm.controller.partitions["batch"].grace_time_s = 30
        site.config = site.config.replace("user: root", "user: root, sendUserSignal: true")
        kube.resources += ADMINISTRATORS
        for kind in ("ConfigMap", "Deployment", "Service"):
            for one in of_kind(kind, CORE).values():
                kube.create(one)
        kube.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "slurm-extender", "namespace": "slurm-extender"},
                "data": {"token": "dA==", "hooks-key": "aw=="},
            }
        )
        for text in (ROOT / "manifests" / "components" / "gate-policy" / "policy.yaml").read_text().split("---\n"):
            kube.create(yaml.safe_load(text))
        async with site.running(changed=changed):
            site.kube.add_pod("placed", gates=(GATE,))
            await site.bound("placed")
            yield site


async def examined(
    site: Site,
    given: ExaminationInputs | None = None,
    *,
    administrator: bool = True,
    more: str = "",
    http: httpx.AsyncBaseTransport | None = None,
) -> list[Finding]:
    """The doctor's findings. Without `administrator` it asks as the extender's own account."""

    def client(address: str, token: TokenSource) -> SlurmClient:
        return SlurmClient([address], token, user="root", dial=site.network.dial, retry=ONCE)

    before = site.kube.rbac
    if administrator:
        site.kube.rbac = None
    connection = connect_plainly("http://kube:6443", lambda: "t", lambda: MemoryConnector(site.network))
    http = http or http_transport(site.network)
    tools = Tools(StaticToken("t"), client, LoopClock(site.kube.wall), connection, http=http)
    try:
        return await examine(
            parse(site.config + ELECTED + more, "test"), tools, given or ExaminationInputs(("f", SLURM_CONF))
        )
    finally:
        await tools.close()
        site.kube.rbac = before


def not_ok(findings: Sequence[Finding]) -> list[tuple[str, Verdict, str]]:
    return [(one.check, one.verdict, one.seen) for one in findings if one.verdict is not OK]


def said(findings: Sequence[Finding], check: str) -> list[Finding]:
    return [one for one in findings if one.check == check]


async def test_an_administrator_finds_everything_in_order() -> None:
    async with installed() as site:
        findings = await examined(site)
        assert not_ok(findings) == []
        assert {one.check for one in findings} >= {
            *("slurmrestd", "token", "clock", "partitions", "KillWait", "kubernetes", "rights", "gates"),
            *("extenders", "nodes", "kube-scheduler", "mounts", "extender", "calls", "hooks", "policy"),
        }


async def test_the_extender_s_own_account_finds_nothing_wrong_and_says_what_it_may_not_see() -> None:
    async with installed() as site:
        findings = await examined(site, administrator=False)
        assert {one.verdict for one in findings} == {OK, SKIPPED}
        assert {one.check for one in findings if one.verdict is SKIPPED} == {
            *("gates", "extenders", "kube-scheduler", "mounts")
        }
        brought = ExaminationInputs(("f", SLURM_CONF), (("k", (CORE / "kube-scheduler.yaml").read_text()),))
        assert [one.verdict for one in said(await examined(site, brought, administrator=False), "kube-scheduler")] == [
            OK
        ]


async def test_devices_are_compared_where_the_configuration_maps_them_and_only_there() -> None:
    async with installed() as site:
        seen = len(site.kube.requests)
        assert not said(await examined(site), "devices")
        paths = {one.path for one in list(site.kube.requests)[seen:]}
        assert not any("resourceslices" in path or "resourceclaims" in path for path in paths)
        (absent,) = said(await examined(site, more=DEVICE_MAP), "devices")
        assert "does not serve resource.k8s.io/v1" in absent.seen
        with_devices(site)
        agreed = (OK, f"GRES gpu: {4 * len(NAMES)} devices on {len(NAMES)} Nodes have the indexes of Slurm")
        (base_alone, *rest) = reported_devices(await examined(site, more=DEVICE_MAP))
        assert base_alone[0] is ERROR
        assert "may not create resourceclaims.resource.k8s.io" in base_alone[1]
        assert rest == [agreed]
        assert reported_devices(await examined(site, more=DEVICE_MAP, administrator=False)) == [agreed]
        resources_of(site).withdraw(NAMES[0])
        (lost, _rest) = reported_devices(await examined(site, more=DEVICE_MAP, administrator=False))
        assert lost[0] is ERROR
        assert lost[1].startswith(f"GRES gpu of {NAMES[0]}: Slurm has 4, and driver {DRIVER} publishes no")


def reported_devices(findings: Sequence[Finding]) -> list[tuple[Verdict, str]]:
    return [(one.verdict, one.seen) for one in said(findings, "devices")]


async def test_an_annotation_that_the_extender_does_not_accept_is_no_fence() -> None:
    async with installed() as site:
        guessed, calls = FenceProofs([b"guessed"], CLUSTER, "slurm"), {FenceScript.EPILOG: site.kube.wall()}

        def forge(node: Json) -> None:
            meta = node["metadata"]
            meta["annotations"][FENCE_EVIDENCE] = guessed.written(meta["uid"], meta["name"], calls)

        for name in NAMES[:2]:
            site.edit_node(name, forge)
        findings = await examined(site)
        (fences,) = said(findings, "fences")
        assert fences.verdict is WARNING
        assert f"2 of 3 Slurm nodes: {', '.join(NAMES[:2])};" in fences.seen
        assert "1 of 3 Slurm nodes have a working fence" in said(findings, "gangs")[0].seen


async def test_nothing_is_changed_by_reading() -> None:
    async with installed() as site:
        jobs, seen = len(site.slurm.controller.known_jobs()), len(site.kube.requests)
        await examined(site)
        assert len(site.slurm.controller.known_jobs()) == jobs
        mine = list(site.kube.requests)[seen:]
        writes = {one.path.rpartition("/")[2] for one in mine if one.method != "GET"}
        assert writes <= {"selfsubjectreviews", "subjectaccessreviews", "leases", "slurm-extender", "events"}


async def test_slurmrestd_that_is_away_is_the_one_thing_that_is_wrong() -> None:
    async with installed() as site:
        site.network.refuse("slurm", 6820)
        findings = await examined(site)
        assert {one.check for one in findings if one.verdict is ERROR} == {"slurmrestd"}
        assert [one.verdict for one in said(findings, "slurmctld")] == [SKIPPED]


async def test_slurmctld_that_is_away_is_said() -> None:
    async with installed() as site:
        site.slurm.restd.slurmctld_up = False
        findings = await examined(site)
        assert "slurmctld does not answer" in said(findings, "slurmrestd")[0].seen
        assert said(findings, "token")[0].verdict is SKIPPED


async def test_an_api_server_that_is_away_is_said() -> None:
    async with installed() as site:
        site.network.refuse("kube", 6443)
        [one] = said(await examined(site), "kubernetes")
        assert one.verdict is ERROR


async def test_a_missing_secret_is_found() -> None:
    async with installed() as site:
        site.kube.storage.remove(ObjectKey(SECRETS, "slurm-extender", "slurm-extender"))
        [one] = [each for each in said(await examined(site), "mounts") if each.verdict is ERROR]
        assert (
            "Secret slurm-extender, which slurm-extender mounts at /etc/slurm-extender/secret, does not exist"
            in one.seen
        )


async def test_an_extender_called_by_http_with_certificates_set_is_found() -> None:
    async with installed() as site:
        tls = "http: {bind: 'extender:8080', tls: {certificateFile: /none/tls.crt, keyFile: /none/tls.key}}\n"
        site.config = site.config.replace('http: {bind: "extender:8080"}\n', tls)
        found = [one for one in said(await examined(site), "kube-scheduler") if one.verdict is ERROR]
        assert "http.tls is set here: every call fails at the first byte" in found[0].seen


async def test_two_extenders_on_one_scheduler_name_are_found() -> None:
    async with installed() as site:
        [own] = [one for one in site.kube.storage.of(LEASES) if one["metadata"]["name"] == "slurm-extender"]
        other = {**own, "metadata": {**own["metadata"], "namespace": "default", "name": "another"}}
        other["spec"] = {**own["spec"], "holderIdentity": "another-0"}
        for name in ("uid", "resourceVersion", "creationTimestamp", "generation"):
            other["metadata"].pop(name)
        site.kube.create(other)
        [one] = said(await examined(site), "extenders")
        assert one.verdict is ERROR
        assert "default/another held by another-0" in one.seen


async def test_a_token_without_the_rights_is_found() -> None:
    async with installed() as site:
        site.config = site.config.replace("user: root", "user: alice")

        def client(address: str, token: TokenSource) -> SlurmClient:
            return SlurmClient([address], token, user="alice", dial=site.network.dial, retry=ONCE)

        connection = connect_plainly("http://kube:6443", lambda: "t", lambda: MemoryConnector(site.network))
        tools = Tools(
            StaticToken("t"), client, LoopClock(site.kube.wall), connection, http=http_transport(site.network)
        )
        try:
            findings = await examine(parse(site.config + ELECTED, "test"), tools)
        finally:
            await tools.close()
        [one] = said(findings, "token")
        assert one.verdict is ERROR
        assert "alice may not change nodes and jobs of others" in one.seen


async def test_the_configuration_is_read_where_it_is_installed() -> None:
    async with installed() as site:
        connection = connect_plainly("http://kube:6443", lambda: "t", lambda: MemoryConnector(site.network))
        try:
            with pytest.raises(LookupError, match="may not be read"):
                await gather_configuration(connection, "slurm-extender")
            site.kube.rbac = None
            found = await gather_configuration(connection, "slurm-extender")
            with pytest.raises(LookupError, match="no Deployment in namespace default"):
                await gather_configuration(connection, "default")
        finally:
            await connection.close()
        config = parse(found.text, found.where, from_environment(found.environ))
        assert found.where == "ConfigMap slurm-extender/extender-config, config.yaml"
        assert config.leader_election.enabled
        assert str(config.slurm.token_file) == "/etc/slurm-extender/secret/token"


async def test_a_clock_that_is_off_is_found() -> None:
    async with installed() as site:
        before = site.kube.wall

        def client(address: str, token: TokenSource) -> SlurmClient:
            return SlurmClient([address], token, dial=site.network.dial, retry=ONCE)

        connection = connect_plainly("http://kube:6443", lambda: "t", lambda: MemoryConnector(site.network))
        late = LoopClock(lambda: before() - 90)
        tools = Tools(StaticToken("t"), client, late, connection, http=http_transport(site.network))
        try:
            findings = await examine(parse(site.config, "test"), tools)
        finally:
            await tools.close()
        assert [(one.verdict, one.seen) for one in said(findings, "clock")] == [
            (ERROR, "slurmctld is 90 s ahead of this machine"),
            (ERROR, "the API server is 90 s ahead of this machine"),
        ]


async def test_a_kube_scheduler_that_never_calls_is_found_where_pods_wait() -> None:
    async with a_site() as site:
        site.network.refuse("extender", 8080)
        async with site.running():
            await asyncio.sleep(1)
            site.kube.add_pod("waits")
            await asyncio.sleep(15)
            [one] = said(await examined(site), "calls")
            assert one.verdict is ERROR
            assert "kube-scheduler has never called, and 1 Pods of slurm wait for it" in one.seen


async def test_a_kube_scheduler_that_calls_no_more_is_found_later_and_one_that_need_not_is_not() -> None:
    async with installed() as site:
        await asyncio.sleep(900)
        [one] = said(await examined(site), "calls")
        assert one.verdict is OK
        site.network.refuse("extender", 8080)
        site.kube.add_pod("waits")
        await asyncio.sleep(15)
        [one] = said(await examined(site), "calls")
        assert one.verdict is ERROR
        assert "kube-scheduler has not called for 9" in one.seen
        refused = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
        }
        site.edit_pod("waits", lambda pod: set_condition(pod["status"], refused, site.kube.wall()))
        [one] = said(await examined(site), "calls")
        assert one.verdict is OK


async def test_a_service_that_is_called_and_not_there_is_found() -> None:
    async with installed() as site:
        key = ObjectKey(SERVICES, "slurm-extender", "slurm-extender")
        moved = site.kube.storage.remove(key)
        lost = "urlPrefix leads to the Service slurm-extender/slurm-extender, which does not exist"
        assert lost in said(await examined(site), "kube-scheduler")[-1].seen
        again = {**moved, "spec": {"ports": [{"port": 9090}]}}
        for name in ("uid", "resourceVersion", "creationTimestamp", "generation"):
            again["metadata"].pop(name, None)
        site.kube.create(again)
        assert "which has no port 8080; it has 9090" in said(await examined(site), "kube-scheduler")[-1].seen


async def test_what_answers_in_the_place_of_the_extender_is_not_taken_for_it() -> None:
    async with installed() as site:

        def answer(request: httpx.Request) -> httpx.Response:
            return httpx.Response(404, text="<html>not here</html>")

        found = await examined(site, http=httpx.MockTransport(answer))
        assert [(one.verdict, "is not that of an extender" in one.seen) for one in said(found, "extender")] == [
            (SKIPPED, True)
        ]
        assert [one.verdict for one in said(found, "hooks")] == [WARNING]
