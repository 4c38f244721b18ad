"""Replies that are not as promised: texts, broken JSON, odd values in jobs."""

from __future__ import annotations

import json
import sys
from collections import Counter

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmclient import ExitCode, Job, JobState, ProtocolError, Shared
from slurmclient.classification import Effect
from slurmclient.errors import SlurmError
from slurmclient.wire import CODECS
from slurmclient.wire.envelope import LARGE_BYTES, open_envelope
from slurmclient.wire.job import read_states
from tests.builders.slurmrestd_fake import FakeRestd, client_of, reply

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=4)),
    max_leaves=10,
)
FIELDS = st.sampled_from(
    [
        "name",
        "job_state",
        "nodes",
        "cpus",
        "memory_per_node",
        "job_resources",
        "gres_detail",
        "tres_alloc_str",
        "flags",
        "user_id",
        "start_time",
        "end_time",
        "time_limit",
        "exit_code",
        "required_nodes",
        "excluded_nodes",
        "priority",
        "nice",
        "hold",
        "shared",
        "preempt_time",
        "array_job_id",
        "batch_flag",
        "deadline",
    ]
)


def a_job(**fields: object) -> dict[str, object]:
    return {"job_id": 5, "name": "x", "job_state": ["RUNNING"], **fields}


def read(version: int = 42, **fields: object) -> Job:
    return CODECS[version].read_job(a_job(**fields))


def number(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value}


UNLIMITED = {"set": False, "infinite": True, "number": 0}


@pytest.mark.parametrize("version", list(CODECS))
@given(fields=st.dictionaries(FIELDS, JSON, max_size=6))
def test_no_value_of_any_field_does_more_than_make_one_job_unreadable(version: int, fields: dict[str, object]) -> None:
    try:
        job = CODECS[version].read_job(a_job(**fields))
    except (ValueError, ProtocolError):
        return
    assert job.job_id == 5


@given(JSON)
def test_any_json_is_read_as_states_or_refused(payload: object) -> None:
    envelope = open_envelope("GET /x", 200, "application/json", json.dumps(payload).encode())
    try:
        envelope.check(Effect.READ)
        read_states(envelope.payload, envelope.endpoint)
    except SlurmError:
        return
    assert isinstance(envelope.payload.get("jobs"), list)


@given(
    st.binary(max_size=60), st.sampled_from([200, 404, 500]), st.sampled_from(["application/json", "text/plain", ""])
)
def test_any_bytes_are_opened_without_an_exception(body: bytes, status: int, content_type: str) -> None:
    envelope = open_envelope("GET /x", status, content_type, body)
    assert envelope.status == status
    assert envelope.spoken or envelope.payload == {}


LARGE = b'{"filler":"' + b"x" * LARGE_BYTES + b'","jobs":[%s]}'


@pytest.mark.parametrize(
    "job", [b"NaN", b"Infinity", b'"caf\xe9"', b'{"job_id":5,"job_id":6}', b"[" * 100 + b"]" * 100]
)
def test_a_large_reply_is_read_like_a_small_one(job: bytes) -> None:
    small = b'{"jobs":[%s]}' % job
    small_one, large_one = (open_envelope("GET /x", 200, "application/json", body) for body in (small, LARGE % job))
    assert repr(small_one.payload.get("jobs")) == repr(large_one.payload.get("jobs"))
    assert small_one.spoken == large_one.spoken


@pytest.mark.parametrize("job", [b"{", b"[" * 100_000, b"nul"])
def test_a_large_reply_that_is_not_json_is_reported_as_such(job: bytes) -> None:
    assert not open_envelope("GET /x", 200, "application/json", LARGE % job).spoken


def test_the_interpreter_is_free_for_others_at_each_object_of_a_large_reply() -> None:
    body = LARGE % b",".join(b'{"job_id":%d}' % number for number in range(1000))
    calls = Counter[str]()
    sys.setprofile(lambda _frame, event, _arg: calls.update([event]))
    try:
        open_envelope("GET /x", 200, "application/json", body)
    finally:
        sys.setprofile(None)
    assert calls["call"] > 1000


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"null", b"\xff\xfe", b"<html>"])
async def test_a_read_whose_answer_is_not_json_concludes_nothing(body: bytes) -> None:
    answer = httpx.Response(200, content=body, headers={"content-type": "application/json"})
    async with client_of(FakeRestd().on("GET", "jobs/state", answer)) as slurm:
        with pytest.raises(ProtocolError, match="not slurmrestd's JSON"):
            await slurm.job_states()


async def test_a_name_that_is_not_utf_8_does_not_hide_the_job() -> None:
    body = b'{"jobs":[{"job_id":5,"name":"caf\xe9","job_state":["RUNNING"]}],"errors":[],"warnings":[]}'
    envelope = open_envelope("GET /x", 200, "application/json", body)
    jobs = envelope.payload["jobs"]
    assert isinstance(jobs, list)
    assert CODECS[42].read_job(jobs[0]).name == "caf\N{REPLACEMENT CHARACTER}"


def test_the_base_state_is_distinguished_from_the_flags() -> None:
    job = read(job_state=["CANCELLED", "COMPLETING"])
    assert (job.state, job.flags, job.state_words) == (
        JobState.CANCELLED,
        frozenset({"COMPLETING"}),
        frozenset({"CANCELLED", "COMPLETING"}),
    )
    assert job.state.ended


def test_an_unknown_state_is_unknown_and_not_ended() -> None:
    job = read(job_state=["HIBERNATING"])
    assert (job.state, job.flags, job.state_words) == (
        JobState.UNKNOWN,
        frozenset({"HIBERNATING"}),
        frozenset({"HIBERNATING"}),
    )
    assert not job.state.ended


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.UNKNOWN])
def test_every_base_state_is_known(state: JobState) -> None:
    assert read(job_state=[state.value]).state is state
    assert state.ended is (state.value not in ("PENDING", "RUNNING", "SUSPENDED"))


def test_a_live_job_without_limit_has_no_end() -> None:
    made_up = number(1826772680)
    assert read(time_limit=UNLIMITED, end_time=made_up).end_time is None
    assert read(time_limit=UNLIMITED, end_time=made_up, preempt_time=number(1795236680)).end_time == 1826772680
    assert read(time_limit=UNLIMITED, end_time=made_up, job_state=["COMPLETED"]).end_time == 1826772680
    assert read(time_limit=number(5), end_time=number(1826772680)).end_time == 1826772680
    assert read(time_limit=number(5), end_time=number(1795236680 + 2**32)).end_time is None


def test_the_warning_of_a_preemption_is_a_moment() -> None:
    assert read(preempt_time=number(1795236680)).preempt_time == 1795236680
    assert read(preempt_time=number(0)).preempt_time is None


def test_a_node_list_that_cannot_be_read_fails_the_job_rather_than_losing_nodes() -> None:
    with pytest.raises(ValueError, match="hostlist"):
        read(nodes="n[1-")


async def test_a_job_that_cannot_be_read_says_so() -> None:
    answer = reply({"jobs": [a_job(nodes="n[1-")]})
    async with client_of(FakeRestd().on("GET", "job/5", answer)) as slurm:
        with pytest.raises(ProtocolError, match="job 5 cannot be read: hostlist"):
            await slurm.job(5)


def test_an_exit_code_gives_status_code_and_signal() -> None:
    raw = {"status": ["SIGNALED"], "return_code": number(0), "signal": {"id": number(9), "name": "KILL"}}
    assert read(exit_code=raw).exit_code == ExitCode(status=frozenset({"SIGNALED"}), return_code=0, signal=9)


@pytest.mark.parametrize("mode", list(Shared))
def test_how_nodes_are_shared_is_read_back_up_to_v0_0_44(mode: Shared) -> None:
    assert read(44, shared=[mode.value]).shared is mode
    assert read(45, shared=[mode.value]).shared is None
    assert read(44, shared=["news"]).shared is None


def test_v0_0_40_shows_cpus_by_cores() -> None:
    nodes = [
        {"nodename": "n1", "memory_allocated": 100, "sockets": {"0": {"cores": {"0": "allocated", "1": "unassigned"}}}},
        {"nodename": "n2", "memory_allocated": 200, "sockets": {"0": {"cores": {"0": "allocated", "1": "allocated"}}}},
    ]
    job = read(40, cpus=number(6), job_resources={"allocated_nodes": nodes})
    assert [(one.node, one.cpus, one.memory_mb) for one in job.allocations] == [("n1", 2, 100), ("n2", 4, 200)]


def test_equal_state_words_are_one_object_however_many_jobs_have_them() -> None:
    entries = [{"job_id": str(job_id), "state": ["RUNNING"]} for job_id in range(1, 20001)]
    states = read_states({"jobs": entries}, "GET /x")
    assert len(states) == 20000
    assert len({id(words) for words in states.values()}) == 1


@pytest.mark.parametrize(
    ("exclusive", "oversubscribe", "expected"),
    [
        ("NO", "YES:4", ("YES", 4)),
        ("NO", "NO", ("NO", None)),
        ("NODE", "NO", ("EXCLUSIVE", None)),
        ("NO", "FORCE:2", ("FORCE", 2)),
    ],
)
def test_v0_0_45_shows_sharing_of_a_partition_in_words(
    exclusive: str, oversubscribe: str, expected: tuple[str, int | None]
) -> None:
    raw = {"name": "p", "partition": {"state": ["UP"], "exclusive": exclusive, "oversubscribe": oversubscribe}}
    partition = CODECS[45].read_partition(raw)
    assert (partition.oversubscribe, partition.oversubscribe_jobs) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"jobs": 1, "flags": []}, ("NO", 1)),
        ({"jobs": 4, "flags": []}, ("YES", 4)),
        ({"jobs": 2, "flags": ["force"]}, ("FORCE", 2)),
        ({"jobs": 0, "flags": []}, ("EXCLUSIVE", None)),
        ({}, ("", None)),
    ],
)
def test_earlier_versions_show_sharing_of_a_partition_in_numbers(
    raw: dict[str, object], expected: tuple[str, int | None]
) -> None:
    partition = CODECS[44].read_partition({"name": "p", "maximums": {"oversubscribe": raw}})
    assert (partition.oversubscribe, partition.oversubscribe_jobs) == expected
