"""What callers that nobody knows can cause."""

from __future__ import annotations

from typing import cast

import pytest

from extender.controllers.nodes.clearance import Clearance
from extender.domain.jobs.identity import hook_token
from extender.domain.placeholder import Placeholder, State
from extender.domain.states import PlaceholderJob
from extender.engine.engine import Engine
from extender.engine.engine_context import EngineState
from extender.engine.placeholder_index import PlaceholderIndex
from extender.http.hook_service import HookService, UnprovenReads
from extender.http.pod_drain_waiters import PodDrainWaiters
from extender.runtime.event_bus import EventBus
from tests.builders.hook_services import (
    IDENTITY,
    KEY,
    CountedIndex,
    CountedMembers,
    Effects,
    bound_gang,
    bound_pods,
    hook_service,
)
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


PODS = 2_000
MEMBERS = 1_024
LONGER_THAN_A_MARK = "1." + "\xe9" * 253 + ".00"
"""As a header brings it: in a mark each of its characters takes six bytes."""


def token_of(workload: str, attempt: int = 1) -> str:
    return hook_token(KEY, IDENTITY.mark(workload, attempt))


@pytest.mark.parametrize("token", ["", "wrong", "1.u1.00", "9" * 4000, LONGER_THAN_A_MARK, token_of("gone")])
async def test_a_call_without_a_proof_reads_no_workloads_and_changes_nothing(token: str) -> None:
    index, effects = CountedIndex(bound_pods(PODS)), Effects()
    service = hook_service(index, effects)
    assert (await service.drain("s1", token, "")).status == 403
    assert not (await service.started(1, token)).body["proven"]
    assert (await service.teardown(1, token, 5.0)).status == (404 if token == token_of("gone") else 403)
    assert index.walks == 0
    assert effects == Effects(requested=[1]), "a teardown may have a job read once in five seconds"


async def test_the_token_of_another_job_proves_neither_a_start_nor_a_drain() -> None:
    index, effects = CountedIndex(bound_pods(2)), Effects()
    service = hook_service(index, effects)
    for token in (token_of("u2"), token_of("u1", attempt=2)):
        assert (await service.drain("s1", token, "")).status == 403
        assert not (await service.started(1, token)).body["proven"]
    assert effects == Effects()
    assert (await service.drain("s1", token_of("u1"), "")).status == 409, "the job runs"
    assert (effects.read, effects.held) == ([1], [])


async def test_a_call_reads_each_member_of_a_gang_a_few_times_however_many_there_are() -> None:
    passes = []
    for count in (8, MEMBERS):
        gang = bound_gang(count, 7)
        service = hook_service(CountedIndex(iter([gang])), site_key=b"site")
        for token in (token_of("gang"), "site"):
            await service.drain(f"s-g{count - 1}", token, "")
        assert isinstance(gang.members, CountedMembers)
        passes.append(gang.members.passes)
    assert passes[0] == passes[1]
