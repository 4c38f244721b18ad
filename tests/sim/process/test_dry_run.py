"""`serve --dry-run` looks at everything, says what it would do, and does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from extender.assembly.io_context import IoContext
from extender.controllers.dry_run import DRY_TEXT
from extender.domain.events import MemberRef
from extender.domain.ports import BindResult, PortError
from extender.domain.wellknown import GATE
from extender.kube.writes import PodWriter
from extender.server.life import serve
from extender.server.signal_handlers import SignalHandlers
from extender.slurm.nodes import SlurmrestdNodes
from simulator.kube.objects import a_pod
from simulator.replicas.process import ProcessNetwork
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

WISHES = "slurm-extender.io/"


@asynccontextmanager
async def dry_running(site: Site, io_context: IoContext | None = None) -> AsyncIterator[ProcessNetwork]:
    """A dry run; what it wrote is in `writes` of its network."""
    network = ProcessNetwork(site.network)
    io_context, orders = io_context or site.io_context(network), SignalHandlers()
    process = asyncio.create_task(serve(site.configured(), io_context, orders, dry=True))
    try:
        await asyncio.sleep(3)
        yield network
    finally:
        orders.stop.set()
        await process
        await io_context.close()


async def counted(site: Site, kind: str) -> float:
    return await site.metric(f'dry_run_translations_total{{result="{kind}"}}')


async def test_pods_are_translated_logged_and_counted_and_not_one_write_is_sent(site: Site) -> None:
    marks = "unavailableTaint: {effect: NoSchedule}, unavailableCordon: true"
    site.config += f"nodes: {{managedTaint: {{effect: NoSchedule}}, {marks}}}\nforeignPods: {{mode: jobs}}\n"
    await site.slurm_request("POST", "node/n3", {"state": ["DRAIN"], "reason": "disk"})
    with capture_logs() as logs:
        async with dry_running(site) as network:
            site.kube.add_pod("web", annotations={f"{WISHES}partition": "urgent"})
            site.kube.add_pod("gated", gates=(GATE,))
            site.kube.add_pod("odd", annotations={f"{WISHES}nice": "very"})
            site.cordon("n2")
            await asyncio.sleep(60)
            assert (await counted(site, "submitted"), await counted(site, "refused")) == (2, 1)
            assert await site.metric('dry_run_pods{result="submitted"}') == 2
            assert await site.metric("leader") == 0
            assert network.writes == []
    assert site.jobs() == []
    assert site.drained() == ["n3"]
    assert site.pod("gated")["spec"]["schedulingGates"]
    said = {line["pod"]: line for line in logs if line["event"].startswith("would_be")}
    assert said["default/web"]["job"]["partition"] == "urgent"
    assert said["default/odd"]["event"] == "would_be_refused"
    assert all(line["uid"] and line["cause"] for line in said.values())


async def test_a_gang_is_said_once_with_its_one_job_when_its_last_pod_is_there(site: Site) -> None:
    annotations = {f"{WISHES}gang": "ring", f"{WISHES}gang-size": "3"}
    with capture_logs() as logs:
        async with dry_running(site):
            for number in range(2):
                site.kube.add_pod(f"ring-{number}", annotations=annotations, gates=(GATE,))
            await asyncio.sleep(5)
            assert await site.metric('dry_run_pods{result="incomplete"}') == 2
            site.kube.add_pod("ring-2", annotations=annotations, cpu="2", gates=(GATE,))
            site.kube.add_pod("web")
            await asyncio.sleep(5)
            assert await site.metric('dry_run_pods{result="incomplete"}') == 0
            assert await site.metric('dry_run_pods{result="submitted"}') == 4
            assert await counted(site, "submitted") == 2
            site.edit_pod("ring-1", lambda pod: pod["metadata"]["annotations"].update({f"{WISHES}partition": "urgent"}))
            await asyncio.sleep(5)
            assert await site.metric('dry_run_pods{result="refused"}') == 3
            site.kube.delete_pod("ring-1", grace_s=0)
            await asyncio.sleep(5)
            assert await site.metric('dry_run_pods{result="incomplete"}') == 2
    lines = [(line["event"], line) for line in logs if line.get("gang") == "gang ring"]
    assert [event for event, _ in lines][-4:] == [
        "would_wait_for_its_gang",
        "would_be_submitted",
        "would_be_refused",
        "would_wait_for_its_gang",
    ]
    waited, submitted, refused, again = (line for _, line in lines[-4:])
    assert waited["missing"] == again["missing"] == "2 of 3 Pods of gang ring exist."
    assert (submitted["pods"], submitted["job"]["members"], submitted["job"]["title"]) == (3, 3, "default/gang ring")
    assert submitted["job"]["cpus"] == 2
    assert any("requests less than the largest member of its gang" in text for text in submitted["notices"])
    assert any("partition" in fault for fault in refused["faults"])
    assert site.jobs() == []


async def test_a_change_is_said_and_what_stays_is_not_said_again(site: Site) -> None:
    async with dry_running(site):
        site.kube.add_pod("web")
        await asyncio.sleep(30)
        site.edit_pod("web", lambda pod: pod["metadata"].update(labels={"no": "matter"}))
        await asyncio.sleep(30)
        assert await counted(site, "submitted") == 1
        site.edit_pod("web", lambda pod: pod["metadata"].update(annotations={f"{WISHES}partition": "urgent"}))
        await asyncio.sleep(5)
        assert await counted(site, "submitted") == 2


async def test_kube_scheduler_learns_that_pods_wait(site: Site) -> None:
    async with dry_running(site):
        site.kube.add_pod("web")
        await asyncio.sleep(5)
        assert (await site.get(8081, "/readyz")).status_code == 200
        conditions = site.pod("web")["status"]["conditions"]
        assert any(DRY_TEXT in one.get("message", "") for one in conditions)
        assert not site.node_of("web")


async def test_no_lease_is_taken_and_no_call_is_held_for_a_leader(site: Site) -> None:
    site.config += "leaderElection: {enabled: true}\n"
    async with dry_running(site) as network:
        site.kube.add_pod("web")
        await asyncio.sleep(30)
        assert network.writes == []
        assert site.scheduler.status.slowest_s < 1  # it answers by itself: nobody leads to whom it would pass a call on


async def test_new_pods_are_not_changed_by_admission(site: Site) -> None:
    site.config += "admission: {bind: 'extender:8443'}\nnodes: {managedTaint: {effect: NoSchedule}}\n"
    request = {"uid": "u-1", "operation": "CREATE", "namespace": "default", "object": a_pod("web")}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    async with dry_running(site), site.client() as client:
        answer = (await client.post("http://extender:8443/admission/mutate", json=review)).json()
    assert answer["response"] == {"uid": "u-1", "allowed": True}


async def test_not_even_a_part_that_tries_can_write(site: Site) -> None:
    network = ProcessNetwork(site.network)
    io_context = site.io_context(network)
    site.kube.add_pod("web", gates=(GATE,))
    async with dry_running(site, io_context):
        pods = PodWriter(io_context.kubernetes, clock=io_context.clock, rng=io_context.rng)
        member = MemberRef(site.uid("web"), "default", "web")
        assert not await pods.ungate(member)
        assert (await pods.bind(member, "n1", {})).result is not BindResult.BOUND
        with pytest.raises(PortError):
            await SlurmrestdNodes(io_context.slurm, io_context.clock, owner="").drain("n1", "no")
        assert network.writes == []
