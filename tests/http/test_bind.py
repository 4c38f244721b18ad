"""`/bind`: success only where the service says that the Pod is bound."""

from __future__ import annotations

from typing import Any

import pytest

from extender.domain.events import MemberRef
from extender.http.app import application
from extender.http.scheduling import router
from extender.observability.metrics.registry import Metrics
from tests.builders.services import FakeScheduling, FakeServices, StillClock, client

ARGS = {"PodName": "p", "PodNamespace": "ns", "PodUID": "u1", "Node": "n2"}


async def call(service: FakeScheduling, body: Any) -> dict[str, Any]:
    clock = StillClock()
    async with client(application([router(FakeServices(service), Metrics(clock), clock, 1 << 20)])) as http:
        reply = await http.post("/scheduler/bind", json=body)
    assert reply.status_code == 200
    assert int(reply.headers["content-length"]) == len(reply.content)
    answer: dict[str, Any] = reply.json()
    return answer


async def test_a_bound_pod_is_an_empty_error() -> None:
    service = FakeScheduling()
    assert await call(service, ARGS) == {"Error": ""}
    assert service.binds == [(MemberRef("u1", "ns", "p"), "n2")]


async def test_the_service_s_refusal_is_the_error() -> None:
    assert await call(FakeScheduling(bind_error="Slurm has no allocation for this Pod"), ARGS) == {
        "Error": "Slurm has no allocation for this Pod"
    }


@pytest.mark.parametrize("field", sorted(ARGS))
@pytest.mark.parametrize("value", [None, "", 5])
async def test_nothing_is_bound_on_incomplete_arguments(field: str, value: object) -> None:
    service = FakeScheduling()
    answer = await call(service, {**ARGS, field: value})
    assert answer["Error"].startswith("malformed request: ")
    assert service.binds == []


async def test_nothing_is_bound_before_the_cluster_is_known() -> None:
    service = FakeScheduling(ready=False)
    assert (await call(service, ARGS))["Error"]
    assert service.binds == []


async def test_a_failure_inside_is_never_success() -> None:
    answer = await call(FakeScheduling(failure=RuntimeError("boom")), ARGS)
    assert answer == {"Error": "internal error of the extender; see its log"}
