"""What callers that nobody knows can cause."""

from __future__ import annotations

from typing import cast

from extender.controllers.clearance import Clearance
from extender.domain.placeholder import Placeholder, State
from extender.engine.engine import Engine
from extender.hook_desk import HookDesk


class Jobs:
    """The part of an engine that knows which job is whose."""

    def __init__(self, **known: Placeholder) -> None:
        self.known = {int(name.removeprefix("job_")): p for name, p in known.items()}

    def by_job(self, job_id: int) -> Placeholder | None:
        return self.known.get(job_id)

    def in_state(self, *_states: State) -> list[Placeholder]:
        return []


async def test_numbers_that_are_no_jobs_of_ours_are_not_kept_to_be_read() -> None:
    hints: list[int] = []
    engine = cast(Engine, Jobs(job_7=Placeholder("u1")))

    async def held(_node: str) -> None:
        return

    desk = HookDesk(
        engine,
        b"key",
        None,
        ready=lambda: True,
        hint=hints.append,
        hold=lambda *_: None,
        held=held,
        clearance=cast(Clearance, None),
    )
    for job_id in (6, 7, 8):
        assert (await desk.started(job_id, "")).status == 202
        assert (await desk.teardown(job_id, "", 5.0)).status in {403, 404}
    assert set(hints) == {7}
