"""Whatever slurmrestd writes into an answer ends in the client's own error, or is left out; nothing else escapes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

import pytest

from extender.slurm.job_view import job_view
from slurmclient.endpoints import cluster, jobs, nodes
from slurmclient.errors import SlurmError
from slurmclient.models.answer import SubmitResult
from slurmclient.models.job import Job
from slurmclient.wire.envelope import LARGE_BYTES
from slurmclient.wire.list_cache import ListCache
from tests.builders.hostile_server import memory_at_most
from tests.builders.hostile_values import (
    BODIES,
    FEW,
    VALUES,
    numbers_of,
    with_each_field_replaced,
    with_each_key_twice,
)
from tests.builders.slurmrestd_answers import CALLS, JOB_ID, RECORDINGS, answer_of, read

LARGE = b" " * LARGE_BYTES


REFUSED = ("refused", "no_job", "no_node", "new_node", "deleted_node", "shares")
"""Answers that report an error; the recorded clusters have no slurmdbd, and so no shares."""


def escaping(cases: Iterator[tuple[object, Callable[[], object]]]) -> list[str]:
    """What is raised that is not the client's own, and numbers that Slurm cannot have meant."""
    found = []
    for case, act in cases:
        try:
            result = act()
        except SlurmError:
            continue
        except Exception as error:
            found.append(f"{case}: {type(error).__name__}: {str(error)[:100]}")
            continue
        if isinstance(result, SubmitResult) and not 0 < result.job_id < 2**32:
            found.append(f"{case}: a job that has the id {result.job_id}")
        numeric = "digits" in str(case) or "2**80" in str(case) or "1e" in str(case)
        if numeric and any(not -(2**64) < number < 2**64 for number in numbers_of(result)):
            found.append(f"{case}: a number of more than 64 bits")
    return found


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("which", CALLS)
def test_an_answer_with_every_field_is_read_or_refused(recording: str, which: str) -> None:
    body = json.dumps(answer_of(recording, which)).encode()
    if which in REFUSED:
        with pytest.raises(SlurmError):
            read(recording, CALLS[which], body)
    else:
        read(recording, CALLS[which], body)


def as_viewed(result: object) -> object:
    return job_view(result) if isinstance(result, Job) else result


@pytest.mark.parametrize(("recording", "values"), [("v0.0.40-slurm-24.11", FEW), ("v0.0.45-slurm-26.05", VALUES)])
@pytest.mark.parametrize("which", CALLS)
def test_a_field_of_another_type_ends_in_the_clients_error_or_is_left_out(
    recording: str, values: Iterable[str], which: str
) -> None:
    answer, call = answer_of(recording, which), CALLS[which]
    cases = (
        ((path, value), lambda body=body: as_viewed(read(recording, call, body)))
        for path, value, body in with_each_field_replaced(answer, values)
    )
    assert escaping(cases) == []


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("which", CALLS)
def test_a_key_that_stands_twice_ends_in_the_clients_error_or_is_left_out(recording: str, which: str) -> None:
    answer, call = answer_of(recording, which), CALLS[which]
    cases = (
        (path, lambda body=body: as_viewed(read(recording, call, body))) for path, body in with_each_key_twice(answer)
    )
    assert escaping(cases) == []


@pytest.mark.parametrize("which", ["nodes", "jobs_state"])
def test_a_large_answer_is_held_to_the_same(which: str) -> None:
    recording = "v0.0.45-slurm-26.05"
    answer, call = answer_of(recording, which), CALLS[which]
    cases = (
        ((path, value), lambda body=body: read(recording, call, body + LARGE, cache=ListCache(call.listed or "nodes")))
        for path, value, body in with_each_field_replaced(answer, FEW)
        if len(path) <= 3
    )
    assert escaping(cases) == []


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("status", [200, 404, 500])
def test_a_body_that_is_no_answer_ends_in_the_clients_error(body: str, status: int) -> None:
    for call in (cluster.PING, nodes.NODES, jobs.job(JOB_ID)):
        for cache in (None, ListCache("nodes")):
            with memory_at_most(100 * 2**20), pytest.raises(SlurmError):
                read("v0.0.45-slurm-26.05", call, BODIES[body], cache=cache, status=status)
