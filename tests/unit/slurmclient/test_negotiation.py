from __future__ import annotations

import asyncio

import httpx
import pytest

from slurmclient import (
    AuthenticationError,
    ConnectError,
    JobDescription,
    OutcomeUnknownError,
    ProtocolError,
    Release,
    SlurmClient,
    StaticToken,
    UnsupportedError,
)
from tests.builders.slurmrestd_fake import FakeRestd, FunctionSender, client_of, plain, reply

DIAG = reply({"statistics": {}})
MADE = reply({"job_id": 7})
BATCH = JobDescription(name="x", script="#!/bin/sh\n", environment=("A=b",), current_working_directory="/")


def paths(restd: FakeRestd) -> list[str]:
    return [request.url.path for request in restd.requests]


@pytest.mark.parametrize(
    ("versions", "release", "best"),
    [
        ((40, 39), "23.11.11", 40),
        ((41, 40, 39), "24.05.4", 41),
        ((42, 41, 40), "24.11.5", 42),
        ((43, 42, 41, 40), "25.05.9", 43),
        ((44, 43, 42, 41), "25.11.8", 44),
        ((45, 44, 43, 42), "26.05.5", 45),
        ((46, 45, 44, 43), "26.11.0", 45),
        ((42, 40), "24.11.5", 42),
    ],
)
async def test_the_highest_common_version_is_chosen(versions: tuple[int, ...], release: str, best: int) -> None:
    async with client_of(FakeRestd(*versions, release=release)) as slurm:
        capabilities = await slurm.negotiate()
        assert capabilities.api_version == best
        assert slurm.capabilities == capabilities
        assert slurm.release == Release.parse(release)
        assert slurm.cluster == "lab"


async def test_any_call_negotiates_by_itself_and_once_for_all() -> None:
    restd = FakeRestd(42).on("GET", "diag", DIAG)
    async with client_of(restd) as slurm:
        await asyncio.gather(*(slurm.diag() for _ in range(10)))
    assert restd.pings == 1
    assert set(paths(restd)) == {"/slurm/v0.0.42/diag"}


async def test_before_negotiation_nothing_is_known_and_that_is_said() -> None:
    async with client_of(FakeRestd()) as slurm:
        with pytest.raises(RuntimeError, match=r"await negotiate\(\)"):
            _ = slurm.capabilities


@pytest.mark.parametrize("release", ["23.11.5", "23.11.0", "23.02.7"])
async def test_a_release_that_is_too_old_is_refused_with_the_oldest_that_is_not(release: str) -> None:
    async with client_of(FakeRestd(40, release=release)) as slurm:
        with pytest.raises(UnsupportedError, match=rf"Slurm {release}; 23\.11\.6 is the oldest"):
            await slurm.negotiate()


async def test_a_server_without_common_version_gets_the_list_of_those_tried() -> None:
    async with client_of(FakeRestd(39, 38)) as slurm:
        with pytest.raises(UnsupportedError, match=r"v0\.0\.45.*v0\.0\.40; is it slurmrestd"):
            await slurm.negotiate()


async def test_a_version_can_be_pinned() -> None:
    async with client_of(FakeRestd(45, 44, 43, 42, release="26.05.5"), api_versions=[42]) as slurm:
        assert (await slurm.negotiate()).api_version == 42


@pytest.mark.parametrize("versions", [[], [39], [45, 46]])
def test_versions_that_are_not_spoken_cannot_be_pinned(versions: list[int]) -> None:
    with pytest.raises(ValueError, match="one or more of 45, 44, 43, 42, 41, 40"):
        SlurmClient(["http://x"], StaticToken("t"), api_versions=versions)


async def test_a_slurm_that_was_downgraded_underneath_is_negotiated_with_again_and_the_request_replayed() -> None:
    restd = FakeRestd(45, 44, release="26.05.5").on("POST", "job/submit", MADE)
    async with client_of(restd) as slurm:
        await slurm.negotiate()
        restd.versions, restd.release = {42, 41, 40}, "24.11.5"
        assert (await slurm.submit(BATCH)).job_id == 7
        assert slurm.release == Release(24, 11, 5)
    assert paths(restd) == ["/slurm/v0.0.42/job/submit"]


async def test_a_slurm_that_was_upgraded_and_kept_the_version_is_noticed_by_its_next_answer() -> None:
    restd = FakeRestd(42, 41, release="24.11.5").on("GET", "diag", DIAG)
    async with client_of(restd) as slurm:
        await slurm.diag()
        restd.versions, restd.release = {45, 44, 43, 42}, "26.05.5"
        await slurm.diag()
        await slurm.diag()
        assert slurm.capabilities.api_version == 45
        assert slurm.capabilities.health
    assert paths(restd) == ["/slurm/v0.0.42/diag", "/slurm/v0.0.42/diag", "/slurm/v0.0.45/diag"]


async def test_many_calls_that_find_the_version_gone_negotiate_once() -> None:
    restd = FakeRestd(45, release="26.05.5").on("GET", "diag", DIAG)
    async with client_of(restd) as slurm:
        await slurm.negotiate()
        restd.versions, restd.release = {42}, "24.11.5"
        before = restd.pings
        await asyncio.gather(*(slurm.diag() for _ in range(20)))
    assert restd.pings == before + 1
    assert len(restd.requests) == 20


async def test_a_capability_lost_in_a_downgrade_is_reported_and_nothing_is_sent() -> None:
    restd = FakeRestd(45, release="26.05.5")
    async with client_of(restd) as slurm:
        await slurm.negotiate()
        restd.versions, restd.release = {40}, "23.11.11"
        with pytest.raises(UnsupportedError, match=r"allocations need v0\.0\.41 .* v0\.0\.40 of Slurm 23\.11\.11"):
            await slurm.allocate(JobDescription(name="x", current_working_directory="/"))
    assert restd.requests == []


async def test_a_path_that_no_version_serves_is_tried_twice_and_then_unsupported() -> None:
    restd = FakeRestd(42)
    async with client_of(restd) as slurm:
        with pytest.raises(UnsupportedError, match="does not serve"):
            await slurm.licenses()
    assert paths(restd) == ["/slurm/v0.0.42/licenses"] * 2


async def test_a_slurmrestd_without_slurmdbd_is_explained() -> None:
    async with client_of(FakeRestd(42)) as slurm:
        with pytest.raises(UnsupportedError, match="does not serve slurmdbd"):
            await slurm.associations()


async def test_negotiation_proves_no_token_but_takes_a_refusal_seriously() -> None:
    def unauthorized(request: httpx.Request) -> httpx.Response:
        return plain(401, "Authentication failure")

    async with SlurmClient(["http://x"], StaticToken("t"), sender=FunctionSender(unauthorized)) as slurm:
        with pytest.raises(AuthenticationError, match="Authentication failure"):
            await slurm.negotiate()


async def test_another_server_than_slurmrestd_is_not_trusted() -> None:
    def page(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, html="<html>welcome</html>")

    async with SlurmClient(["http://x"], StaticToken("t"), sender=FunctionSender(page)) as slurm:
        with pytest.raises(ProtocolError, match="welcome"):
            await slurm.negotiate()


async def test_json_without_a_release_is_not_trusted() -> None:
    def other(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"pings": []})

    async with SlurmClient(["http://x"], StaticToken("t"), sender=FunctionSender(other)) as slurm:
        with pytest.raises(ProtocolError, match="no Slurm release"):
            await slurm.negotiate()


async def test_a_failed_negotiation_is_tried_again_by_the_next_call() -> None:
    restd = FakeRestd(39).on("GET", "diag", DIAG)
    async with client_of(restd) as slurm:
        with pytest.raises(UnsupportedError):
            await slurm.diag()
        restd.versions = {42}
        await slurm.diag()


@pytest.mark.looptime
async def test_a_call_that_waits_for_a_negotiation_keeps_its_deadline() -> None:
    async def stall(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(20)
        return await restd.answer(request)

    restd = FakeRestd(45).on("GET", "diag", DIAG)
    async with SlurmClient(["http://x"], StaticToken("t"), sender=FunctionSender(stall)) as slurm:
        began = asyncio.get_running_loop().time()
        patient = asyncio.create_task(slurm.diag())
        await asyncio.sleep(0)
        with pytest.raises(ConnectError, match="deadline"):
            await slurm.diag(deadline_s=4)
        assert asyncio.get_running_loop().time() - began == pytest.approx(4)
        await patient


@pytest.mark.parametrize("deadline", [0, -1, float("nan")])
async def test_a_deadline_that_leaves_no_time_is_refused(deadline: float) -> None:
    async with client_of(FakeRestd()) as slurm:
        with pytest.raises(ValueError, match="deadline_s"):
            await slurm.diag(deadline_s=deadline)


async def test_another_cluster_behind_the_same_address_is_not_trusted_and_sent_nothing_more() -> None:
    restd = FakeRestd(45).on("GET", "diag", DIAG).on("POST", "job/submit", MADE)
    async with client_of(restd) as slurm:
        await slurm.diag()
        restd.cluster = "other"
        with pytest.raises(ProtocolError, match="the Slurm cluster other answers, not lab"):
            await slurm.diag()
        for _ in range(2):
            with pytest.raises(ConnectError, match="other answers, not lab"):
                await slurm.submit(BATCH)
        restd.cluster = "lab"
        assert (await slurm.submit(BATCH)).job_id == 7
    assert paths(restd).count("/slurm/v0.0.45/job/submit") == 1


async def test_what_another_cluster_was_requested_to_do_may_have_been_done() -> None:
    restd = FakeRestd(45).on("GET", "diag", DIAG).on("POST", "job/submit", MADE)
    async with client_of(restd) as slurm:
        await slurm.diag()
        restd.cluster = "other"
        with pytest.raises(OutcomeUnknownError, match="other answers, not lab"):
            await slurm.submit(BATCH)
