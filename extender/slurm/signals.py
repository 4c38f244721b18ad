"""Send signals to jobs, cancels included: requests in quick succession become one.

`DELETE /jobs` takes any number of jobs and reports the result of each. slurmctld locks its jobs once for all of them,
so that hundreds of Pods that end together cost little more than a few. The first signal goes out at once; later ones,
while it is fresh or two requests are under way, are sent together. What has waited for too long is not sent: whose job
the id names was read before the wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from slurmclient import CancelStatus, ConnectError, OutcomeUnknownError, SlurmError

UNDER_WAY = 2
"""Requests at a time; further jobs gather meanwhile."""

APART = 0.05
"""Seconds between the beginnings of two requests."""

MOST = 100
"""Jobs in one request."""

FRESH_S = 5.0
"""Seconds for which it is trusted whose job an id names. slurmctld gives ids out again if it has lost jobs."""

Send = Callable[[Sequence[int]], Awaitable[Sequence[CancelStatus]]]

_Turn = asyncio.Future[Sequence[CancelStatus] | None]
"""`None`: send yourself, for all who wait by then."""


class Signals:
    """One kind of signal. `send` carries one request out."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: list[tuple[int, float, _Turn]] = []
        """Jobs, since when each waits, and what answers."""

        self._under_way = 0
        self._gathers = False
        """A task is about to send all waiting signals."""

        self._not_before = 0.0

    async def signal(self, job_id: int) -> Sequence[CancelStatus]:
        """Signal one job; the answer may contain others, too. Raises SlurmError."""
        if self._gathers or self._under_way >= UNDER_WAY:
            turn: _Turn = asyncio.get_running_loop().create_future()
            self._waiting.append((job_id, asyncio.get_running_loop().time(), turn))
            try:
                answer = await turn
            except asyncio.CancelledError:
                self._leave(turn)
                raise
            if answer is not None:
                return answer
        else:
            self._under_way += 1
        return await self._send_all(job_id)

    async def _send_all(self, job_id: int) -> Sequence[CancelStatus]:
        """Send for this job and for those that wait; the place is taken already."""
        await self._gather()
        self._drop_stale()
        others, self._waiting = self._waiting[: MOST - 1], self._waiting[MOST - 1 :]
        unknown = OutcomeUnknownError("the request of the job was abandoned")
        failure: SlurmError = unknown
        answer: Sequence[CancelStatus] | None = None
        try:
            answer = await self._send(sorted({job_id, *(other for other, _, _ in others)}))
        except SlurmError as error:
            failure = error
            raise
        finally:
            for *_, turn in others:
                if turn.done():
                    continue
                if answer is not None:
                    turn.set_result(answer)
                else:
                    turn.set_exception(failure)
            self._give()
        return answer

    async def _gather(self) -> None:
        """Let some time pass since the last request: others come meanwhile."""
        now = asyncio.get_running_loop().time()
        pause, self._not_before = self._not_before - now, max(self._not_before, now) + APART
        if pause <= 0:
            return
        self._gathers = True
        try:
            await asyncio.sleep(pause)
        except asyncio.CancelledError:
            self._gathers = False
            self._give()
            raise
        self._gathers = False

    def _give(self) -> None:
        """Give the free place to the first request that waits, which sends for all."""
        self._drop_stale()
        while self._waiting:
            *_, turn = self._waiting[0]
            del self._waiting[0]
            if not turn.done():
                turn.set_result(None)
                return
        self._under_way -= 1

    def _leave(self, turn: _Turn) -> None:
        if turn.done() and not turn.cancelled() and turn.exception() is None and turn.result() is None:
            self._give()  # its turn came when no caller waited any more
        self._waiting = [one for one in self._waiting if one[-1] is not turn]

    def _drop_stale(self) -> None:
        """Answer those that have waited too long that nothing was sent for them: the caller reads its job again."""
        oldest = asyncio.get_running_loop().time() - FRESH_S
        while self._waiting and self._waiting[0][1] < oldest:
            _, _, turn = self._waiting.pop(0)
            if not turn.done():
                turn.set_exception(ConnectError("not sent: earlier requests of this kind were not answered in time"))
