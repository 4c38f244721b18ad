"""Which answers about a job are news, and that nothing is remembered of jobs that are over."""

from __future__ import annotations

from extender.domain.ports import Announcement
from extender.engine.job_read_versions import SPARE, JobReadVersions
from extender.engine.mass_deletion_guard import MassDeletionGuard
from extender.engine.missing_jobs import MISS_APART, MissingJobTracker
from extender.runtime.event_bus import EventBus
from tests.builders.services import StillClock


class Nobody:
    """An announcer to whom nobody listens."""

    def announce(self, announcement: Announcement) -> None:
        pass


def test_an_answer_requested_before_one_that_was_handled_is_no_news() -> None:
    readings = JobReadVersions(StillClock(), lambda: {7})
    first, second = readings.next_request_time(), readings.next_request_time()
    assert readings.is_news(7, second)
    assert not readings.is_news(7, first)
    assert readings.is_news(7, readings.next_request_time())


def test_answers_in_their_order_are_all_news() -> None:
    readings = JobReadVersions(StillClock(), lambda: {7})
    first, second = readings.next_request_time(), readings.next_request_time()
    assert readings.is_news(7, first)
    assert readings.is_news(7, second)


def test_one_jobs_answers_say_nothing_of_anothers() -> None:
    readings = JobReadVersions(StillClock(), lambda: {7, 8})
    first, second = readings.next_request_time(), readings.next_request_time()
    assert readings.is_news(8, second)
    assert readings.is_news(7, first)


def test_no_more_is_remembered_than_of_live_jobs() -> None:
    live: set[int] = set()
    readings = JobReadVersions(StillClock(), lambda: live)
    for job_id in range(10_000):
        live.clear()
        live.add(job_id)
        assert readings.is_news(job_id, readings.next_request_time())
        assert len(readings) <= 2 * len(live) + SPARE


def test_the_words_of_the_latest_answer_are_kept_of_live_jobs_alone() -> None:
    live: set[int] = {1}
    readings = JobReadVersions(StillClock(), lambda: live)
    assert readings.states(1) is None
    readings.note(1, frozenset({"RUNNING"}))
    assert readings.states(1) == frozenset({"RUNNING"})
    for job_id in range(2, 200):
        readings.is_news(job_id, readings.next_request_time())
        readings.note(job_id, frozenset({"PENDING"}))
    assert readings.states(1) == frozenset({"RUNNING"})
    assert sum(readings.states(job_id) is not None for job_id in range(200)) <= 2 * len(live) + SPARE
    readings.note(1, None)
    assert readings.states(1) is None


def test_two_reads_that_began_together_are_one_miss_however_late_the_second_is_answered() -> None:
    clock = StillClock()
    missing_jobs = MissingJobTracker(clock, Nobody(), MassDeletionGuard(clock, EventBus()), EventBus(), lambda: 1)
    assert not missing_jobs.missed("u1", 7, clock.now())
    began = clock.now()
    clock.time += 10
    assert not missing_jobs.missed("u1", 7, began)
    assert not missing_jobs.missed("u1", 7, began + MISS_APART / 2)
    assert missing_jobs.missed("u1", 7, began + MISS_APART)


def test_an_answer_is_wanted_until_one_that_was_requested_later_is_handled() -> None:
    readings = JobReadVersions(StillClock(), lambda: {7})
    earlier = readings.next_request_time()
    readings.want("workload", 7)
    readings.delivered("workload", 7, earlier)
    assert readings.still_wanted("workload", 7)
    assert not readings.still_wanted("workload", 7)


def test_a_poll_that_was_faster_spares_the_question_of_its_own_workload_alone() -> None:
    readings = JobReadVersions(StillClock(), lambda: {7})
    readings.want("workload", 7)
    readings.want("another", 7)
    readings.delivered("workload", 7, readings.next_request_time())
    assert not readings.still_wanted("workload", 7)
    assert readings.still_wanted("another", 7)
