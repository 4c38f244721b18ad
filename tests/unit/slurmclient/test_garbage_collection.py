"""The search for cyclic garbage, while large replies are read."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator

import httpx
import pytest

from slurmclient.wire.envelope import LARGE_BYTES
from tests.builders.slurmrestd_fake import FakeRestd, client_of

JOBS = [{"job_id": number, "state": ["RUNNING"]} for number in range(1, 20_000)]
LARGE = httpx.Response(200, content=json.dumps({"jobs": JOBS}), headers={"content-type": "application/json"})
BROKEN = httpx.Response(200, content=b"{" * (LARGE_BYTES + 1), headers={"content-type": "application/json"})


@pytest.fixture
def searched() -> Iterator[set[int]]:
    """Threads that were held up by a search."""
    threads: set[int] = set()

    def note(phase: str, _about: dict[str, int]) -> None:
        threads.add(threading.get_ident())

    gc.callbacks.append(note)
    yield threads
    gc.callbacks.remove(note)


async def test_no_search_falls_into_the_reading_of_a_large_reply(searched: set[int]) -> None:
    assert len(LARGE.content) > LARGE_BYTES
    async with client_of(FakeRestd().on("GET", "jobs/state", LARGE)) as slurm:
        assert len(await slurm.job_states()) == len(JOBS)
    assert searched <= {threading.get_ident()}
    assert gc.isenabled()


async def test_the_search_is_on_again_after_a_large_reply_that_cannot_be_read() -> None:
    async with client_of(FakeRestd().on("GET", "jobs/state", BROKEN)) as slurm:
        with pytest.raises(Exception, match="not slurmrestd's JSON"):
            await slurm.job_states()
    assert gc.isenabled()


async def test_a_collection_that_was_turned_off_stays_off() -> None:
    gc.disable()
    try:
        async with client_of(FakeRestd().on("GET", "jobs/state", LARGE)) as slurm:
            await slurm.job_states()
        assert not gc.isenabled()
    finally:
        gc.enable()
