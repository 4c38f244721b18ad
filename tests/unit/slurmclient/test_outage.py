"""What slurmrestd says while slurmctld is away, as 24.11 and 26.05 say it, and what may be concluded."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from slurmclient import (
    ConnectError,
    ControllerUnavailableError,
    ControllerUnreachedError,
    JobDescription,
    NodeUpdate,
    OutcomeUnknownError,
    ProtocolError,
    RefusedError,
    RetryPolicy,
    SlurmClient,
    StaticToken,
    TransportError,
)
from tests.builders.byte_server import Act, ByteServer
from tests.builders.slurmrestd_fake import Answer, FakeRestd, FunctionSender, client_of, plain, refusal, reply

BATCH = JobDescription(name="x", script="#!/bin/sh\n", environment=("A=b",), current_working_directory="/")
ONCE = RetryPolicy(attempts=1)
MADE = reply({"job_id": 7})


@pytest.mark.parametrize(("number", "status"), [(1, 403), (1, 500), (-1, 500), (1000, 500)])
async def test_a_change_that_fails_ambiguously_is_an_outage_if_slurmctld_does_not_answer(
    number: int, status: int
) -> None:
    restd = FakeRestd(45, release="26.05.5").on("DELETE", "jobs", refusal(number, status))
    restd.on("POST", "job/5", refusal(number, status))
    restd.responding = False
    async with client_of(restd) as slurm:
        with pytest.raises(ControllerUnavailableError, match="slurmctld does not answer") as caught:
            await slurm.cancel(5)
        with pytest.raises(ControllerUnavailableError):
            await slurm.update_job(5, JobDescription(comment="x"))
    assert caught.value.slurm_errno == number
    assert len(restd.requests) == 2


@pytest.mark.parametrize("number", [1, -1, 1000])
async def test_the_same_numbers_are_a_refusal_if_slurmctld_answers(number: int) -> None:
    restd = FakeRestd(45, release="26.05.5").on("POST", "node/n1", refusal(number, 500))
    async with client_of(restd) as slurm:
        with pytest.raises(RefusedError) as caught:
            await slurm.update_node("n1", NodeUpdate(comment="x"))
    assert caught.value.slurm_errno == number


async def test_an_ambiguous_change_is_an_outage_if_slurmctld_cannot_be_queried() -> None:
    restd = FakeRestd(45).on("DELETE", "jobs", refusal(1, 403))

    async def ping_breaks(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("ping") and restd.requests:
            raise httpx.ReadError("reset")
        return await restd.answer(request)

    from_pings = FunctionSender(ping_breaks)
    async with client_of(restd, sender=from_pings) as slurm:
        with pytest.raises(ControllerUnavailableError, match="could not be asked"):
            await slurm.cancel(5)


@pytest.mark.parametrize("number", [-1, 1, 1000])
async def test_a_read_that_fails_ambiguously_is_an_outage_without_a_query(number: int) -> None:
    restd = FakeRestd(45).on("GET", "jobs/state", refusal(number, 500))
    async with client_of(restd, retry=ONCE) as slurm:
        await slurm.negotiate()
        pings = restd.pings
        with pytest.raises(ControllerUnavailableError):
            await slurm.job_states()
    assert restd.pings == pings


async def test_the_probe_during_an_outage_is_no_proof_that_there_is_no_job() -> None:
    restd = FakeRestd(45).on("DELETE", "jobs", refusal(1, 403))
    async with client_of(restd, retry=ONCE) as slurm:
        with pytest.raises(ControllerUnavailableError):
            await slurm.find_jobs_by_name("x")


async def test_a_submission_before_which_no_version_could_be_negotiated_was_surely_not_sent() -> None:
    def break_off(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("reset")

    async with client_of(FakeRestd(45), sender=FunctionSender(break_off), retry=ONCE) as slurm:
        with pytest.raises(ConnectError, match="no API version could be negotiated"):
            await slurm.submit(BATCH)


async def test_partitions_without_any_number_are_an_outage() -> None:
    restd = FakeRestd(45).on("GET", "partitions", reply(status=502))
    async with client_of(restd, retry=ONCE) as slurm:
        with pytest.raises(ControllerUnavailableError, match="slurmctld did not answer"):
            await slurm.partitions()


async def test_a_submission_that_never_reached_slurmctld_is_sent_again() -> None:
    restd = FakeRestd(45).on("POST", "job/submit", refusal(1800, 502), MADE)
    async with client_of(restd) as slurm:
        assert (await slurm.submit(BATCH)).job_id == 7
    assert len(restd.requests) == 2


@pytest.mark.parametrize(
    "answer",
    [
        refusal(5004, 504),
        refusal(-1, 500),
        refusal(1802, 500),
        plain(502, "bad gateway"),
        plain(500, "Unspecified error"),
        plain(200, "fine"),
        reply({}),
        httpx.ReadError("reset"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("Server disconnected without sending a response."),
    ],
)
async def test_a_submission_of_unknown_outcome_is_never_sent_again(answer: Answer) -> None:
    restd = FakeRestd(45).on("POST", "job/submit", answer)
    async with client_of(restd) as slurm:
        with pytest.raises(OutcomeUnknownError):
            await slurm.submit(BATCH)
    assert len(restd.requests) == 1


@pytest.mark.parametrize("answer", [refusal(5004, 504), httpx.ReadError("reset"), httpx.ReadTimeout("slow")])
async def test_a_change_of_unknown_outcome_is_never_sent_again(answer: Answer) -> None:
    restd = FakeRestd(45).on("DELETE", "jobs", answer).on("POST", "node/n1", answer)
    async with client_of(restd) as slurm:
        with pytest.raises(OutcomeUnknownError):
            await slurm.cancel(5)
        with pytest.raises(OutcomeUnknownError):
            await slurm.update_node("n1", NodeUpdate(comment="x"))
    assert len(restd.requests) == 2


@pytest.mark.parametrize("answer", [httpx.ReadError("reset"), refusal(1800, 502), refusal(5004, 504), refusal(-1, 500)])
async def test_a_read_is_sent_again(answer: Answer) -> None:
    restd = FakeRestd(45).on("GET", "jobs/state", answer, reply({"jobs": []}))
    async with client_of(restd) as slurm:
        assert await slurm.job_states() == {}
    assert len(restd.requests) == 2


async def test_the_probe_is_a_read_and_sent_again() -> None:
    restd = FakeRestd(45).on("DELETE", "jobs", httpx.ReadError("reset"), reply({"status": []}))
    async with client_of(restd) as slurm:
        assert await slurm.find_jobs_by_name("x") == ()
    assert len(restd.requests) == 2


async def test_a_connection_that_was_never_made_is_tried_again_for_a_submission_too() -> None:
    restd = FakeRestd(45).on("POST", "job/submit", httpx.ConnectError("refused"), MADE)
    async with client_of(restd) as slurm:
        assert (await slurm.submit(BATCH)).job_id == 7


@pytest.mark.parametrize("answer", [refusal(1800, 502), refusal(-1, 500), plain(503, "<html>"), plain(504, "")])
async def test_after_an_outage_of_slurmctld_or_slurmrestd_the_next_address_is_called(answer: Answer) -> None:
    restd = FakeRestd(45).on("GET", "jobs/state", answer, reply({"jobs": []}))
    async with client_of(restd, addresses=["http://a.test", "http://b.test"]) as slurm:
        await slurm.job_states()
        assert slurm.address == "http://b.test"
    assert [request.url.host for request in restd.requests] == ["a.test", "b.test"]


async def test_a_change_that_a_proxy_gave_up_on_is_not_sent_again_but_the_next_one_uses_another_address() -> None:
    restd = FakeRestd(45).on("DELETE", "jobs", plain(502, "<html>"), reply({"status": []}))
    async with client_of(restd, addresses=["http://a.test", "http://b.test"]) as slurm:
        with pytest.raises(OutcomeUnknownError):
            await slurm.cancel(5)
        await slurm.cancel(6)
    assert [request.url.host for request in restd.requests] == ["a.test", "b.test"]


@pytest.mark.looptime
async def test_a_call_ends_at_its_deadline_though_more_tries_are_left() -> None:
    async def slow_outage(request: httpx.Request) -> httpx.Response:
        response = await restd.answer(request)
        if not request.url.path.endswith("ping"):
            await asyncio.sleep(10)
        return response

    restd = FakeRestd(45).on("GET", "jobs/state", refusal(1800, 502))
    async with client_of(restd, sender=FunctionSender(slow_outage), retry=RetryPolicy(attempts=99)) as slurm:
        began = asyncio.get_running_loop().time()
        with pytest.raises((ControllerUnreachedError, TransportError)):
            await slurm.job_states(deadline_s=25)
        assert 20 <= asyncio.get_running_loop().time() - began <= 25


async def test_no_connection_at_all_is_reported_with_every_address() -> None:
    server = ByteServer(Act.HANG)
    server.refused = {"a.test:80", "b.test:80"}
    options = RetryPolicy(attempts=2, first_pause_s=0, longest_pause_s=0)
    addresses = ["http://a.test", "http://b.test"]
    async with SlurmClient(addresses, StaticToken("t"), dial=server, retry=options) as slurm:
        with pytest.raises(ConnectError, match=r"a\.test.*b\.test"):
            await slurm.job_states()


@pytest.mark.parametrize("payload", [{}, {"jobs": None}, {"jobs": {}}, {"jobs": "none"}])
async def test_a_missing_list_is_not_an_empty_one(payload: dict[str, object]) -> None:
    restd = FakeRestd(45).on("GET", "jobs/state", reply(payload))
    async with client_of(restd) as slurm:
        with pytest.raises(ProtocolError, match="no list 'jobs'"):
            await slurm.job_states()
