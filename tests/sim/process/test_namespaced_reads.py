"""With `scope.readPods: namespaces` the extender works by the Roles of its namespaces, and ends nothing elsewhere."""

from __future__ import annotations

import asyncio

import pytest

from extender.config.load import parse
from simulator.cluster import CONFIG
from simulator.kube.resources import NAMESPACES
from tests.builders.process_site import Site
from tests.builders.rights import namespaced_rights

pytestmark = pytest.mark.looptime
SCOPE = "scope: {namespaces: [default], readPods: namespaces}\n"


@pytest.fixture
def scoped(site: Site) -> Site:
    site.kube.rbac = namespaced_rights("namespaced-rights", "namespaced-reads")
    return site


async def test_a_pod_is_placed_and_ended_without_any_right_on_pods_of_the_cluster(scoped: Site) -> None:
    async with scoped.running(changed=SCOPE):
        scoped.kube.add_pod("web")
        await scoped.bound("web")
        [job] = scoped.jobs_of("web")
        scoped.slurm.controller.cancel(job.job_id)
        await scoped.gone("web")
        assert not [one for one in scoped.kube.requests if one.path == "/api/v1/pods"]


async def test_a_pod_of_another_namespace_is_not_counted_on_its_node(scoped: Site) -> None:
    scoped.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "others"}})
    for node in ("n1", "n2", "n3"):
        scoped.kube.add_pod(f"full-{node}", "others", scheduler="default-scheduler", node=node, cpu="8")
    async with scoped.running(changed=SCOPE) as extender:
        scoped.kube.add_pod("web")
        node = await scoped.bound("web")
        assert [pod.name for pod in extender.informers.pods.on_node(node)] == ["web"]


async def test_a_job_whose_pod_is_in_a_namespace_that_is_not_read_is_kept(site: Site) -> None:
    if not any(one["metadata"]["name"] == "others" for one in site.kube.storage.of(NAMESPACES)):
        site.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "others"}})
    async with site.dying():
        site.kube.add_pod("web", "others")
        await site.until(lambda: bool((site.kube.pod("web", "others") or {})["spec"].get("nodeName")), "its node")
    [job] = site.live_jobs()
    site.kube.rbac = namespaced_rights("namespaced-rights", "namespaced-reads")
    async with site.running(changed=SCOPE) as extender:
        await asyncio.sleep(700)
        extender.mass_deletion_guard.confirm()
        await asyncio.sleep(60)
        assert [one.job_id for one in site.live_jobs()] == [job.job_id]


async def test_a_namespace_without_its_role_keeps_the_extender_from_being_ready_and_is_named(scoped: Site) -> None:
    changed = "scope: {namespaces: [default, closed], readPods: namespaces}\n"
    async with scoped.running(changed=changed, ready=False):
        await asyncio.sleep(60)
        answer = await scoped.get(8081, "/readyz?verbose")
        assert answer.status_code == 503
        assert "/api/v1/namespaces/closed/pods" in answer.text


def test_all_pods_are_read_unless_the_site_says_otherwise() -> None:
    assert parse(CONFIG, "test").scope.read_namespaces is None
    assert parse(CONFIG + "scope: {namespaces: [a]}\n", "test").scope.read_namespaces is None
    assert parse(CONFIG + SCOPE, "test").scope.read_namespaces == ("default",)
