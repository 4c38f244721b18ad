"""What the extender concludes when the connection to Slurm, or Slurm itself, fails in the middle of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from extender.domain.events import SubmitAccepted, SubmitRefused, SubmitUnknown
from extender.domain.job_outcomes.slurm_states import Running, observe
from extender.domain.ports import PortError
from extender.slurm.jobs import SlurmrestdJobs
from extender.slurm.nodes import SlurmrestdNodes
from extender.slurm.signals import FRESH_S
from simulator.slurm.faults import SlurmFault
from slurmclient import SlurmClient, StaticToken
from tests.builders.job_orders import an_allocation, an_order
from tests.builders.loop_clock import LoopClock
from tests.builders.slurm_sites import SimSite, sim_site
from tests.builders.slurmrestd_fake import FunctionSender, refusal

pytestmark = pytest.mark.looptime

SUBMIT, ALLOCATE = "/job/submit", "/job/allocate"


@asynccontextmanager
async def a_slurm(
    requests: list[tuple[str, float, str]] | None = None,
) -> AsyncIterator[tuple[SlurmrestdJobs, SimSite]]:
    async with sim_site("26.05.5") as site, site.client() as client:
        await client.negotiate()
        told = [] if requests is None else requests
        yield SlurmrestdJobs(client, LoopClock(), observe_request=lambda *said: told.append(said)), site


@pytest.mark.parametrize("fault", [SlurmFault.LOSE_ANSWER, SlurmFault.FAIL_AFTER])
@pytest.mark.parametrize("order", [an_order(), an_allocation()], ids=["submit", "allocate"])
async def test_a_lost_answer_is_unknown_and_the_job_is_found_by_its_name(fault: SlurmFault, order: object) -> None:
    assert isinstance(order, type(an_order()))
    async with a_slurm() as (jobs, site):
        site.sim.restd.faults.add(fault, "POST", "/job/", times=1)
        (event,) = await jobs.submit(order)
        assert isinstance(event, SubmitUnknown)
        assert len(site.sim.controller.jobs) == 1
        (found,) = await jobs.probe(order.name, order.mark.workload, None)
        assert found.job_id == 1


async def test_a_lost_request_is_unknown_too_and_nothing_is_found() -> None:
    async with a_slurm() as (jobs, site):
        site.sim.restd.faults.add(SlurmFault.LOSE_REQUEST, "POST", SUBMIT, times=1)
        (event,) = await jobs.submit(an_order())
        assert isinstance(event, SubmitUnknown)
        assert await jobs.probe(an_order().name, "workload-1", None) == []


async def test_a_submission_is_never_sent_twice() -> None:
    async with a_slurm() as (jobs, site):
        site.sim.restd.faults.add(SlurmFault.LOSE_ANSWER, "POST", SUBMIT)
        await jobs.submit(an_order())
        assert [path for _, path in site.sim.restd.requests].count(SUBMIT) == 1


async def test_a_slurmctld_that_is_away_refuses_for_now() -> None:
    async with a_slurm() as (jobs, site):
        site.sim.restd.slurmctld_up = False
        (event,) = await jobs.submit(an_order())
        assert isinstance(event, SubmitRefused)
        assert (event.permanent, event.queue) == (False, False)
        assert not site.sim.controller.jobs


async def test_a_slurmrestd_that_is_away_refuses_for_now() -> None:
    async with sim_site("26.05.5") as site:
        client = site.client()
        await client.negotiate()
    async with client:
        (event,) = await SlurmrestdJobs(client, LoopClock()).submit(an_order())
    assert isinstance(event, SubmitRefused)
    assert (event.permanent, event.queue) == (False, False)


async def test_nothing_is_concluded_about_a_job_while_slurm_cannot_be_queried() -> None:
    async with a_slurm() as (jobs, site):
        (event,) = await jobs.submit(an_allocation())
        assert isinstance(event, SubmitAccepted)
        site.sim.restd.slurmctld_up = False
        for call in (jobs.read(event.job_id), jobs.states(), jobs.probe("name", "workload-1", event.job_id)):
            with pytest.raises(PortError, match="Slurm could not be asked"):
                await call
        assert not (await jobs.cancel(event.job_id)).job_ended
        assert (await jobs.follow(event.job_id, ())).excluded is None
        site.sim.restd.slurmctld_up = True
        job = await jobs.read(event.job_id)
        assert job is not None
        assert isinstance(observe(job), Running)


async def test_a_proxys_404_does_not_make_a_job_vanish() -> None:
    def proxy(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/ping"):
            return _a_ping()
        return httpx.Response(404, json={"message": "no such route"})

    async with SlurmClient(["http://proxy"], StaticToken("t"), sender=FunctionSender(proxy)) as client:
        with pytest.raises(PortError, match="job 7"):
            await SlurmrestdJobs(client, LoopClock()).read(7)


async def test_a_full_queue_refuses_for_now_and_is_not_sent_to_the_queue() -> None:
    async with a_slurm() as (jobs, site):
        site.sim.restd.faults.add(SlurmFault.REFUSE, "POST", SUBMIT, number=2007)
        (event,) = await jobs.submit(an_order())
        assert isinstance(event, SubmitRefused)
        assert (event.permanent, event.queue) == (False, False)


async def test_a_cancel_whose_answer_was_lost_is_not_final_and_harmless_again() -> None:
    async with a_slurm() as (jobs, site):
        (event,) = await jobs.submit(an_allocation())
        assert isinstance(event, SubmitAccepted)
        site.sim.restd.faults.add(SlurmFault.LOSE_ANSWER, "DELETE", "/jobs", times=1)
        lost = await jobs.cancel(event.job_id)
        assert not lost.job_ended
        assert lost.text
        assert (await jobs.cancel(event.job_id)).job_ended


async def test_a_job_that_slurmctld_forgot_is_known_as_unknown() -> None:
    async with a_slurm() as (jobs, site):
        (event,) = await jobs.submit(an_allocation())
        assert isinstance(event, SubmitAccepted)
        site.sim.controller.forget(event.job_id)
        assert await jobs.read(event.job_id) is None
        # The id is given out again; the probe is not taken in by it.
        (other,) = await jobs.submit(an_allocation("workload-2"))
        assert isinstance(other, SubmitAccepted)
        assert other.job_id == event.job_id
        assert await jobs.probe(an_allocation().name, "workload-1", event.job_id) == []


async def test_an_ended_job_is_forgotten_after_its_age() -> None:
    async with a_slurm() as (jobs, _):
        (event,) = await jobs.submit(an_allocation())
        assert isinstance(event, SubmitAccepted)
        await jobs.cancel(event.job_id)
        await asyncio.sleep(299)
        assert await jobs.read(event.job_id) is not None
        await asyncio.sleep(2)
        assert await jobs.read(event.job_id) is None


async def test_a_mark_taken_away_by_the_owner_is_still_read_from_the_admin_comment() -> None:
    async with a_slurm() as (jobs, site):
        order = an_allocation()
        await jobs.submit(order)
        site.sim.controller.jobs[1].extra = "mine now"
        assert len(await jobs.probe(order.name, "workload-1", None)) == 1


async def test_without_a_mark_the_name_identifies_a_job_where_its_id_or_its_user_is_known() -> None:
    async with a_slurm() as (jobs, site):
        order = an_allocation()
        await jobs.submit(order)
        site.sim.controller.jobs[1].extra = site.sim.controller.jobs[1].admin_comment = ""
        assert [job.job_id for job in await jobs.probe(f"renamed{order.name[-11:]}", "workload-1", 1)] == [1]
        assert await jobs.probe(order.name, "workload-1", None) == []
        assert await jobs.probe(order.name, "workload-1", None, 2001) == []
        assert [job.job_id for job in await jobs.probe(order.name, "workload-1", None, 0)] == [1]
        assert await jobs.probe("team/web-0123456789", "workload-1", 1) == []


async def test_an_order_that_cannot_be_written_is_refused_without_a_call_to_slurm() -> None:
    async with a_slurm() as (jobs, site):
        before = len(site.sim.restd.requests)
        for order, said in (
            (an_order(tres_per_node="gpu 2"), "tres_per_node"),
            (an_order("u" * 1100), "1024"),
        ):
            (event,) = await jobs.submit(order)
            assert isinstance(event, SubmitRefused)
            assert event.permanent
            assert said in event.text
        assert len(site.sim.restd.requests) == before


async def test_every_request_is_reported_with_its_outcome() -> None:
    requests: list[tuple[str, float, str]] = []
    async with a_slurm(requests) as (jobs, site):
        site.sim.restd.faults.add(SlurmFault.DELAY, "GET", "/jobs/state", seconds=2.0)
        await jobs.states()
        await jobs.submit(an_allocation(cpus=99))
        assert requests == [("states", 2.0, "ok"), ("allocate", 0.0, "CapacityError")]


async def test_a_slurm_upgraded_underneath_is_spoken_to_in_its_own_version() -> None:
    async with sim_site("24.11.5") as old, old.client() as client:
        jobs, nodes = SlurmrestdJobs(client, LoopClock()), SlurmrestdNodes(client, LoopClock())
        await jobs.submit(an_order())
        assert (await nodes.snapshot()).features.release == (24, 11, 5)
        async with sim_site("26.05.5") as new:
            # The new slurmrestd answers at the old address.
            old.sim.restd.controller = new.sim.controller
            (event,) = await jobs.submit(an_order("workload-2"))
            assert isinstance(event, SubmitAccepted)
            assert (await nodes.snapshot()).features.release == (26, 5, 5)


async def test_a_full_disk_of_slurmctld_refuses_for_now() -> None:
    async with a_slurm() as (jobs, site):
        site.sim.restd.faults.add(SlurmFault.REFUSE, "POST", SUBMIT, number=2019)
        (event,) = await jobs.submit(an_order())
        assert isinstance(event, SubmitRefused)
        assert not event.permanent


@pytest.mark.parametrize("status", [400, 403, 408, 413, 429])
async def test_a_proxy_that_refuses_a_submission_refuses_it_for_now(status: int) -> None:
    def proxy(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/ping"):
            return _a_ping()
        return httpx.Response(status, text="<html>not now</html>")

    async with SlurmClient(["http://proxy"], StaticToken("t"), sender=FunctionSender(proxy)) as client:
        (event,) = await SlurmrestdJobs(client, LoopClock()).submit(an_order())
    assert isinstance(event, SubmitRefused)
    assert not event.permanent


@pytest.mark.parametrize("answered_after_s", [0.1, 10.0])
async def test_a_change_of_a_job_is_sent_again_only_while_it_is_fresh_whose_job_that_is(
    answered_after_s: float,
) -> None:
    requests = 0

    async def restd(request: httpx.Request) -> httpx.Response:
        nonlocal requests
        if request.url.path.endswith("/ping"):
            return _a_ping()
        requests += 1
        await asyncio.sleep(answered_after_s)
        return refusal(1800, 502)

    async with SlurmClient(["http://restd"], StaticToken("t"), sender=FunctionSender(restd)) as client:
        jobs = SlurmrestdJobs(client, LoopClock())
        most = 3 if answered_after_s < FRESH_S else 1
        assert not (await jobs.cancel(7)).job_ended
        assert requests == most
        assert not (await jobs.finish(7, 0)).job_ended
        assert requests == 2 * most
        assert (await jobs.follow(7, ("n1",))).excluded is None
        assert requests == 3 * most
        assert (await jobs.shrink(7, ("n1",))).done is None
        assert requests == 4 * most


def _a_ping() -> httpx.Response:
    slurm = {"version": {"major": "26", "minor": "05", "micro": "5"}, "release": "26.05.5", "cluster": "c"}
    return httpx.Response(200, json={"pings": [], "meta": {"slurm": slurm}, "errors": [], "warnings": []})
