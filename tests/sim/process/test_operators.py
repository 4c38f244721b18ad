"""What operators see: each Pod's life in the log, problems with nodes, and the mass-deletion guard."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from simulator.kube.resources import NODES
from simulator.kube.storage import ObjectKey
from simulator.slurm.faults import SlurmFault
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
BATCH = {"slurm-extender.io/mode": "batch"}


async def test_the_log_shows_the_life_of_a_pod_in_few_lines(site: Site) -> None:
    with capture_logs() as logs:
        async with site.running():
            site.kube.add_pod("web", annotations=BATCH, grace_s=2)
            node = await site.bound("web")
            (job,) = site.live_jobs()
            uid = site.uid("web")
            await asyncio.sleep(30)
            site.slurm.controller.cancel(job.job_id)
            await site.gone("web")
            await asyncio.sleep(5)
    life = [line for line in logs if line.get("workload") == uid and line["log_level"] == "info"]
    told = ["job_submitted", "job_granted", "pod_bound", "allocation_lost", "pod_finished"]
    assert [line["event"] for line in life] == told
    assert all(line["pod"] == "default/web" and line["job_id"] == job.job_id and line["source"] for line in life)
    assert life[1]["nodes"] == [node]
    assert "cancelled" in life[3]["reason"]


async def test_the_log_shows_why_a_pod_is_refused_or_has_to_wait(site: Site) -> None:
    with capture_logs() as logs:
        async with site.running():
            site.kube.add_pod("faulty", annotations={"slurm-extender.io/time-limit": "soon"})
            site.slurm.restd.faults.add(SlurmFault.REFUSE, "POST", "/job/submit", times=1, number=2001)
            site.kube.add_pod("unlucky", annotations=BATCH)
            await asyncio.sleep(10)
    lines = {(line["event"], line["pod"]): line for line in logs if "pod" in line and "workload" in line}
    assert "soon" in lines["pod_refused", "default/faulty"]["reason"]
    assert {event for event, pod in lines if pod == "default/unlucky"} & {"pod_refused", "retrying_later"}


@pytest.mark.usefixtures("unhurried")
async def test_an_outage_is_logged_once_at_its_beginning_and_once_at_its_end(site: Site) -> None:
    with capture_logs() as logs:
        async with site.running():
            site.network.refuse("slurm", 6820)
            site.network.cut("slurm", 6820)
            await asyncio.sleep(300)
            site.network.refuse("slurm", 6820, refused=False)
            await asyncio.sleep(30)
    events = [line["event"] for line in logs]
    assert (events.count("slurm_unreachable"), events.count("slurm_reachable"), events.count("nodes_not_read")) == (
        1,
        1,
        1,
    )


async def test_a_statement_about_a_node_that_cannot_be_true_is_reported_once_everywhere(site: Site) -> None:
    def state_slurm_node(node: dict[str, object]) -> None:
        node["metadata"]["labels"]["slurm-extender.io/slurm-node"] = "n7"  # type: ignore[index]

    with capture_logs() as logs:
        async with site.running():
            site.kube.change(ObjectKey(NODES, "", "n2"), state_slurm_node)
            await site.until(lambda: "SlurmNodeMappingConflict" in site.events("n2"), "an Event")
            await asyncio.sleep(30)
            shown = (await site.get(8083, "/debug/nodes")).json()
            assert any("n7" in problem for problem in shown["problems"])
            assert await site.metric("node_mapping_problems") == 1
            site.kube.add_pod("web", cpu="1")
            assert await site.bound("web") != "n2"
    assert [line["event"] for line in logs].count("node_mapping_conflict") == 1
    assert not site.events("n1")


async def test_both_nodes_have_an_event_when_one_states_the_slurm_name_of_the_other(site: Site) -> None:
    def state_slurm_node(node: dict[str, object]) -> None:
        node["metadata"]["labels"]["slurm-extender.io/slurm-node"] = "n1"  # type: ignore[index]

    async with site.running():
        site.kube.change(ObjectKey(NODES, "", "n2"), state_slurm_node)
        await site.until(lambda: "SlurmNodeMappingConflict" in site.events("n1"), "an Event on n1")
        await site.until(lambda: "SlurmNodeMappingConflict" in site.events("n2"), "an Event on n2")
        site.kube.add_pod("web", cpu="1")
        assert await site.bound("web") == "n3"


async def test_holds_are_shown_while_a_pod_outlives_its_job(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", grace_s=60)
        node = await site.bound("web")
        site.kubelets.stop_s = 60.0
        site.slurm.controller.end(site.live_jobs()[0].job_id, "TIMEOUT")
        await site.until(lambda: site.drained() == [node], "the drain")
        await asyncio.sleep(6)
        assert await site.metric('drained_nodes{state="DRAINED"}') == 1
        (hold,) = (await site.get(8083, "/debug/nodes")).json()["holds"]
        assert hold["node"] == node
        assert any("default/web" in cause for cause in hold["causes"].values())


async def test_a_job_that_slurm_takes_back_before_the_pod_is_bound_is_reported_and_replaced(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web")
        await site.until(lambda: any(job.state == "RUNNING" for job in site.jobs_of("web")), "its job runs")
        (first,) = site.jobs_of("web")
        site.slurm.controller.requeue(first.job_id)
        await site.until(lambda: "SlurmAllocationReleased" in site.events("web"), "an Event")
        assert any("was requeued" in text and "another job" in text for text in site.notes("web"))
        assert await site.bound("web")
        assert [job.job_id for job in site.live_jobs()] != [first.job_id]
        assert len(site.live_jobs()) == 1
