"""What a mark keeps of a request tells later which of its fields changed, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.domain.jobs.changes import FOLLOWED, can_follow, changed
from extender.domain.jobs.identity import NAME_LIMIT, encode_mark
from extender.domain.jobs.job import JobRequest, Mark
from extender.domain.jobs.request_digests import request_digests, request_of_job

WAS = JobRequest("team/web", cpus=2, memory_mb=100, partition="batch", comment="mine", nice=3, time_limit_minutes=9)


def test_what_did_not_change_is_known_to_be_the_same() -> None:
    assert request_of_job(request_digests(WAS), WAS) == WAS
    assert request_of_job((), replace(WAS, cpus=4)) == replace(WAS, cpus=4)


@pytest.mark.parametrize(
    "now",
    [
        {"partition": "urgent"},
        {"comment": ""},
        {"qos": "high"},
        {"nice": 4},
        {"time_limit_minutes": 8},
        {"licenses": "a"},
        {"members": 4},
    ],
)
def test_fields_that_can_be_followed_are_sent_one_by_one(now: dict[str, Any]) -> None:
    request = replace(WAS, **now)
    was = request_of_job(request_digests(WAS), request)
    assert changed(was, request) == now.keys()
    assert can_follow(was, request)


@pytest.mark.parametrize("now", [{"cpus": 3}, {"qos": "high", "gres": {"gpu": 1}}, {"partition": ""}, {"nice": None}])
def test_what_no_job_can_follow_makes_another(now: dict[str, Any]) -> None:
    request = replace(WAS, **now)
    was = request_of_job(request_digests(WAS), request)
    assert was != request
    assert can_follow(was, request) == can_follow(WAS, request)


def test_the_way_in_which_exclusions_are_sent_has_no_digest() -> None:
    assert request_digests(replace(WAS, excluded_nodes=("n1",), time_limit_least=3)) == request_digests(WAS)


def test_another_partition_may_allow_more_of_the_room_of_a_time_limit() -> None:
    request = replace(WAS, partition="urgent", time_limit_least=5)
    assert changed(request_of_job(request_digests(WAS), request), request) == {"partition", "time_limit_minutes"}


def test_a_mark_with_every_digest_is_no_longer_than_slurm_stores() -> None:
    every: dict[str, Any] = dict.fromkeys(FOLLOWED - {"nice", "time_limit_minutes", "members"}, "x" * 300)
    every["members"] = 300
    mark = Mark("c" * 36, "s" * 253, "u" * 36, 2**31, 2**31, request_digests(replace(WAS, **every)))
    assert len(mark.request_digests) == 12 + 1
    assert '"r":' in encode_mark(mark)
    assert len(encode_mark(mark)) <= NAME_LIMIT
