"""What callers that nobody knows can cause."""

from __future__ import annotations

from typing import cast

from extender.controllers.nodes.clearance import Clearance
from extender.domain.placeholder import Placeholder, State
from extender.domain.states import PlaceholderJob
from extender.engine.engine import Engine
from extender.engine.engine_context import EngineState
from extender.engine.placeholder_index import PlaceholderIndex
from extender.http.hook_service import HookService, UnprovenReads
from extender.http.pod_drain_waiters import PodDrainWaiters
from extender.runtime.event_bus import EventBus
from tests.builders.placeholders import in_state


class Knowing:
    """An engine that knows of nothing but placeholders."""

    def __init__(self, *known: Placeholder) -> None:
        self.placeholders = PlaceholderIndex()
        for p in known:
            self.placeholders.put(p)


async def test_numbers_that_are_no_placeholders_are_not_kept_to_be_read() -> None:
    hints: list[int] = []
    engine = cast(Engine, Knowing(in_state(State.WAITING, "u1", PlaceholderJob(7))))

    async def wait_until_drained(_node: str) -> None:
        return

    async def read(_job_id: int) -> bool:
        return True

    desk = HookService(
        engine,
        cast(EngineState, None),
        PodDrainWaiters(engine.placeholders, EventBus()),
        [b"key"],
        None,
        now=lambda: 0.0,
        ready=lambda: True,
        request_read=hints.append,
        read=read,
        hold=lambda *_: None,
        wait_until_drained=wait_until_drained,
        clearance=cast(Clearance, None),
    )
    for job_id in (6, 7, 8):
        assert (await desk.started(job_id, "")).status == 202
        assert (await desk.teardown(job_id, "", 5.0)).status in {403, 404}
    assert set(hints) == {7}
    refused = {"job": 7, "error": "The token is neither the token of this job nor the site key (hooks.siteKeyFile)."}
    assert (await desk.teardown(7, "", 5.0)).body == refused


def test_calls_without_a_proof_read_a_job_once_in_five_seconds_and_ten_jobs_a_second() -> None:
    now = [0.0]
    reads = UnprovenReads(lambda: now[0])
    assert [reads.may_read(7) for _ in range(3)] == [True, False, False]
    assert sum(reads.may_read(job) for job in range(100, 200)) == 9
    now[0] = 1.0
    assert not reads.may_read(7)
    assert reads.may_read(300)
    now[0] = 5.0
    assert reads.may_read(7)
