"""In which order commands go out, and how many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import pytest

from extender.domain import commands as c
from extender.domain.jobs.job import JobRequest
from extender.runtime import cooperative_yield
from extender.runtime.work_queue import IN_A_ROW
from tests.builders.dispatchers import dispatcher

pytestmark = pytest.mark.looptime

LASTS = 1.0
REQUEST = JobRequest("t", 1, 1)


def end(number: int) -> c.Command:
    return c.CancelJob(number, "")


def start(number: int) -> c.Command:
    return c.SubmitJob(number, REQUEST, frozenset({"n1"}), False)


class Carried:
    """What was carried out, in order, and how many at once at most."""

    def __init__(self) -> None:
        self.commands: list[c.Command] = []
        self.now = 0
        self.most = 0

    async def __call__(self, _key: str, command: c.Command) -> None:
        self.commands.append(command)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(LASTS)
        self.now -= 1


async def executed(commands: Iterable[c.Command], workers: int = 1, seconds: float = 10_000) -> Carried:
    done = Carried()
    queues = dispatcher(done, workers)
    for number, command in enumerate(commands):
        queues.put_for_slurm(str(number), command)
    task = asyncio.create_task(queues.run())
    await asyncio.wait([task], timeout=seconds)
    task.cancel()
    await asyncio.wait([task])
    assert queues.waiting["slurm"] == 0
    return done


async def test_ends_go_before_questions_and_questions_before_starts() -> None:
    probe = c.ProbeJob("t", 1)
    done = await executed([start(1), probe, end(2)])
    assert done.commands == [end(2), probe, start(1)]


async def test_among_many_ends_every_fourth_turn_is_for_another_waiter() -> None:
    done = await executed([*map(start, range(5)), *map(end, range(500))])
    turns = [number for number, command in enumerate(done.commands) if isinstance(command, c.SubmitJob)]
    assert turns == [(IN_A_ROW + 1) * (number + 1) - 1 for number in range(5)]


async def test_questions_do_not_take_the_turns_of_starts() -> None:
    questions = [c.ReadJob(number) for number in range(200)]
    done = await executed([*map(start, range(5)), *questions, *map(end, range(500))])
    turns = [number for number, command in enumerate(done.commands) if isinstance(command, c.SubmitJob)]
    assert turns == [(IN_A_ROW + 2) * (number + 1) - 1 for number in range(5)]


async def test_single_ends_give_no_pod_a_turn_before_those_that_wait() -> None:
    done = Carried()
    queues = dispatcher(done)
    task = asyncio.create_task(queues.run())
    for number in range(10):
        queues.put_for_slurm("u", end(number))
    await asyncio.sleep(5.5 * LASTS)
    queues.put_for_slurm("v", start(1))
    await asyncio.sleep(20 * LASTS)
    task.cancel()
    await asyncio.wait([task])
    assert done.commands == [*map(end, range(6 + IN_A_ROW)), start(1), end(9)]


@pytest.mark.parametrize("command", [start, end], ids=["start", "end"])
async def test_a_command_for_another_namespace_is_the_next_but_one_however_many_wait(
    command: Callable[[int], c.Command],
) -> None:
    done = Carried()
    queues = dispatcher(done, 1, lambda key: key.partition("/")[0])
    for number in range(240):
        queues.put_for_slurm(f"flood/{number}", command(number))
    queues.put_for_slurm("other/1", command(1000))
    task = asyncio.create_task(queues.run())
    await asyncio.sleep(300 * LASTS)
    task.cancel()
    await asyncio.wait([task])
    assert done.commands[:3] == [command(0), command(1000), command(1)]
    assert len(done.commands) == 241


async def test_ends_of_a_namespace_go_before_starts_of_all_others_but_for_their_turns() -> None:
    done = Carried()
    queues = dispatcher(done, 1, lambda key: key.partition("/")[0])
    for number in range(10):
        queues.put_for_slurm(f"flood/{number}", start(number))
    queues.put_for_slurm("other/1", start(1000))
    queues.put_for_slurm("other/2", end(2000))
    task = asyncio.create_task(queues.run())
    await asyncio.sleep(20 * LASTS)
    task.cancel()
    await asyncio.wait([task])
    assert done.commands[:3] == [end(2000), start(0), start(1000)]


async def test_no_more_are_under_way_than_there_are_workers() -> None:
    assert (await executed([*map(start, range(50)), *map(end, range(50))], workers=8)).most == 8


async def test_a_command_that_is_queued_or_under_way_is_not_queued_again() -> None:
    done = Carried()
    queues = dispatcher(done)
    task = asyncio.create_task(queues.run())
    for _ in range(3):
        queues.put_for_slurm("u", end(1))
        await asyncio.sleep(LASTS / 4)
    await asyncio.sleep(2 * LASTS)
    queues.put_for_slurm("u", end(1))
    await asyncio.sleep(2 * LASTS)
    task.cancel()
    await asyncio.wait([task])
    assert done.commands == [end(1), end(1)]


async def test_commands_that_wait_for_nothing_leave_the_loop_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative_yield, "SLICE_S", -1.0)  # each of them takes longer than that
    done: list[str] = []

    async def at_once(key: str, _command: c.Command) -> None:
        done.append(key)

    async def another() -> None:
        while "2" not in done:
            done.append("another")
            await asyncio.sleep(0)

    queues = dispatcher(at_once)
    for number in range(3):
        queues.put_for_slurm(str(number), end(number))
    task = asyncio.create_task(queues.run())
    await another()
    task.cancel()
    await asyncio.wait([task])
    assert done.index("another", done.index("0")) < done.index("2")
