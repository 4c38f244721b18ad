"""Who may write, and until when."""

from __future__ import annotations

import asyncio
import math

import pytest

from extender.assembly.write_gate import WriteGate


class Watch:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def shared(watch: Watch) -> WriteGate:
    write_gate = WriteGate(watch)
    write_gate.share(10.0, 5.0)
    return write_gate


def test_a_process_alone_always_may(watch: Watch) -> None:
    write_gate = WriteGate(watch)
    assert write_gate.may_write()
    assert (write_gate.left_s, write_gate.answer_within_s, write_gate.epoch) == (math.inf, math.inf, 0)


def test_one_of_several_may_not_before_it_was_granted(shared: WriteGate) -> None:
    assert not shared.may_write()
    assert not shared.held
    shared.renewed(100.0, 3)
    assert (shared.may_write(), shared.epoch) == (True, 3)


def test_it_counts_from_the_sending_and_not_from_the_answer(watch: Watch, shared: WriteGate) -> None:
    watch.now = 108.0
    shared.renewed(100.0, 1)
    assert shared.left_s == 2.0
    watch.now = 110.0
    assert not shared.may_write()


def test_an_answer_later_than_the_deadline_gives_nothing(watch: Watch, shared: WriteGate) -> None:
    watch.now = 111.0
    shared.renewed(100.0, 1)
    assert not shared.may_write()


def test_what_ran_out_does_not_come_back(watch: Watch, shared: WriteGate) -> None:
    shared.renewed(100.0, 1)
    watch.now = 110.0
    assert not shared.may_write()
    shared.renewed(109.9, 1)
    assert not shared.may_write()


def test_who_stopped_for_long_finds_out_in_the_first_write(watch: Watch, shared: WriteGate) -> None:
    shared.renewed(100.0, 1)
    assert shared.may_write()
    watch.now = 3_700.0  # no task of it has run meanwhile
    assert not shared.may_write()


def test_what_is_given_up_has_ended_at_once(shared: WriteGate) -> None:
    shared.renewed(100.0, 1)
    shared.give_up()
    assert (shared.may_write(), shared.held, shared.left_s) == (False, False, 0.0)


def test_an_answer_is_of_use_until_another_one_may_write(watch: Watch, shared: WriteGate) -> None:
    shared.renewed(100.0, 1)
    assert shared.answer_within_s == 15.0
    watch.now = 109.0
    assert shared.answer_within_s == 6.0


async def test_the_end_is_reported_to_the_waiter(watch: Watch, shared: WriteGate) -> None:
    shared.renewed(100.0, 1)
    waiting = asyncio.create_task(shared.wait_closed())
    await asyncio.sleep(0)
    watch.now = 110.0
    assert not shared.may_write()
    await waiting
