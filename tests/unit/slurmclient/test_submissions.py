"""What is sent to make jobs, byte for byte, and what is made of the answers."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from slurmclient import (
    INFINITE,
    CapacityError,
    InvalidRequestError,
    JobDescription,
    OutcomeUnknownError,
    QueueFullError,
    RefusedError,
    Shared,
    SlurmWarning,
    SubmitResult,
    UnsupportedError,
)
from tests.builders.slurmrestd_fake import FakeRestd, client_of, refusal, reply

SCRIPT = "#!/bin/sh\nsleep 60\n"
BATCH = JobDescription(name="x", script=SCRIPT, environment=("A=b",), current_working_directory="/")
HOLDING = JobDescription(name="x", current_working_directory="/", memory_per_node_mb=100)
MADE = reply({"job_id": 7, "step_id": "batch", "job_submit_user_msg": ""})

EVERYTHING = JobDescription(
    name="ns/pod",
    account="acc",
    partition="main",
    qos="normal",
    reservation="res",
    wckey="wc",
    comment="c",
    admin_comment="a",
    extra="e",
    mcs_label="m",
    constraints="h100&fast",
    prefer="fast",
    licenses="matlab:1",
    dependency="afterok:5",
    required_switches=2,
    wait_for_switch_s=90,
    container="/bundle",
    script=SCRIPT,
    environment=("A=b", "PATH=/bin"),
    current_working_directory="/tmp",
    user_id=1000,
    group_id=0,
    time_limit_minutes=INFINITE,
    time_minimum_minutes=5,
    begin_time=1795218119,
    deadline=1795219000,
    minimum_cpus=4,
    maximum_cpus=8,
    minimum_cpus_per_node=2,
    cpus_per_task=2,
    tasks=2,
    tasks_per_node=1,
    threads_per_core=1,
    memory_per_node_mb=1024,
    tres_per_node="gres/gpu:h100:2",
    tres_per_job="gres/gpu:4",
    tres_per_socket="gres/gpu:1",
    tres_per_task="gres/gpu:2",
    minimum_nodes=1,
    maximum_nodes=2,
    nodes="1-2",
    required_nodes=("n1",),
    excluded_nodes=("n2", "n3", "n5"),
    shared=Shared.USER,
    contiguous=False,
    hold=True,
    priority=100,
    nice=-5,
    requeue=False,
    kill_on_node_fail=True,
    kill_warning_signal="SIGUSR1",
    kill_warning_delay_s=60,
    kill_warning_flags=("BATCH_JOB",),
    standard_input="/dev/null",
    standard_output="/o",
    standard_error="/e",
    immediate=False,
    reboot=False,
    overcommit=True,
)

EVERYTHING_ON_THE_WIRE = {
    "name": "ns/pod",
    "account": "acc",
    "partition": "main",
    "qos": "normal",
    "reservation": "res",
    "wckey": "wc",
    "comment": "c",
    "admin_comment": "a",
    "extra": "e",
    "mcs_label": "m",
    "constraints": "h100&fast",
    "prefer": "fast",
    "licenses": "matlab:1",
    "dependency": "afterok:5",
    "required_switches": {"set": True, "infinite": False, "number": 2},
    "wait_for_switch": 90,
    "container": "/bundle",
    "script": SCRIPT,
    "environment": ["A=b", "PATH=/bin"],
    "current_working_directory": "/tmp",
    "user_id": "1000",
    "group_id": "0",
    "time_limit": {"set": True, "infinite": True, "number": 0},
    "time_minimum": {"set": True, "infinite": False, "number": 5},
    "begin_time": "uts1795218119",
    "deadline": "uts1795219000",
    "minimum_cpus": 4,
    "maximum_cpus": 8,
    "minimum_cpus_per_node": 2,
    "cpus_per_task": 2,
    "tasks": 2,
    "tasks_per_node": 1,
    "threads_per_core": 1,
    "memory_per_node": {"set": True, "infinite": False, "number": 1024},
    "tres_per_node": "gres/gpu:h100:2",
    "tres_per_job": "gres/gpu:4",
    "tres_per_socket": "gres/gpu:1",
    "tres_per_task": "gres/gpu:2",
    "minimum_nodes": 1,
    "maximum_nodes": 2,
    "nodes": "1-2",
    "required_nodes": ["n1"],
    "excluded_nodes": ["n[2-3,5]"],
    "shared": ["user"],
    "contiguous": False,
    "hold": True,
    "priority": {"set": True, "infinite": False, "number": 100},
    "nice": -5,
    "requeue": False,
    "kill_on_node_fail": True,
    "kill_warning_signal": "USR1",
    "kill_warning_delay": {"set": True, "infinite": False, "number": 60},
    "kill_warning_flags": ["BATCH_JOB"],
    "standard_input": "/dev/null",
    "standard_output": "/o",
    "standard_error": "/e",
    "immediate": False,
    "reboot": False,
    "overcommit": True,
}


async def test_a_submission_is_one_post_with_every_wish_in_its_wire_form() -> None:
    restd = FakeRestd(42).on("POST", "job/submit", reply({"job_id": 7}))
    async with client_of(restd, user="slurm") as slurm:
        assert await slurm.submit(EVERYTHING) == SubmitResult(job_id=7)
    (request,) = restd.requests
    assert (request.method, request.url.path) == ("POST", "/slurm/v0.0.42/job/submit")
    assert json.loads(request.content) == {"job": EVERYTHING_ON_THE_WIRE}
    assert request.headers["x-slurm-user-token"] == "token-1"
    assert request.headers["x-slurm-user-name"] == "slurm"


@pytest.mark.parametrize("version", [40, 41, 42, 43, 44, 45])
async def test_every_version_gets_the_same_words(version: int) -> None:
    restd = FakeRestd(version, release="24.11.5").on("POST", "job/submit", MADE)
    async with client_of(restd) as slurm:
        await slurm.submit(EVERYTHING)
    assert restd.bodies == [{"job": EVERYTHING_ON_THE_WIRE}]


async def test_what_is_not_said_or_empty_is_not_sent() -> None:
    restd = FakeRestd().on("POST", "job/submit", MADE)
    empty = JobDescription(
        name="",
        partition="",
        script=SCRIPT,
        environment=("A=b",),
        current_working_directory="/",
        excluded_nodes=(),
        comment="",
    )
    async with client_of(restd) as slurm:
        await slurm.submit(empty)
    assert restd.bodies == [{"job": {"script": SCRIPT, "environment": ["A=b"], "current_working_directory": "/"}}]


async def test_zero_and_false_are_said() -> None:
    restd = FakeRestd().on("POST", "job/submit", MADE)
    wishes = JobDescription(
        script=SCRIPT, environment=("A=b",), current_working_directory="/", nice=0, priority=0, hold=False
    )
    async with client_of(restd) as slurm:
        await slurm.submit(wishes)
    job = restd.bodies[0]["job"]
    assert isinstance(job, dict)
    assert (job["nice"], job["hold"], job["priority"]["number"]) == (0, False, 0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: JobDescription(user_id=5), "user_id=5, group_id=None: give both or neither"),
        (lambda: JobDescription(group_id=5), "group of the token's owner"),
        (lambda: JobDescription(user_id=-1, group_id=0), "user_id=-1"),
        (lambda: JobDescription(memory_per_node_mb=1, memory_per_cpu_mb=1), "give one"),
        (lambda: JobDescription(external=True, script=SCRIPT), "external job has no script"),
        (lambda: JobDescription(name="x" * 1025), "name is longer than 1024 bytes"),
        (lambda: JobDescription(extra="ü" * 513), "extra is longer than 1024 bytes"),
        (lambda: JobDescription(environment=("A",)), "'A' is not 'KEY=value'"),
        (lambda: JobDescription(environment=("=b",)), "'=b' is not 'KEY=value'"),
        (lambda: JobDescription(tres_per_node="gpu:2"), "tres_per_node: 'gpu:2'"),
        (lambda: JobDescription(kill_warning_signal="SIGNOPE"), "kill_warning_signal: signal 'SIGNOPE'"),
        (lambda: JobDescription(kill_warning_flags=("B",)), "kill_warning_flags: 'B'"),
        (lambda: JobDescription(nodes="0"), "nodes='0'"),
        (lambda: JobDescription(comment="a\0b"), "comment holds a zero byte"),
        (lambda: JobDescription(environment=("A=\0",)), "environment holds a zero byte"),
    ],
)
def test_a_description_that_slurm_would_refuse_or_misread_is_refused_here(
    make: Callable[[], JobDescription], words: str
) -> None:
    with pytest.raises(InvalidRequestError, match="job description: ") as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        (JobDescription(name="x"), "needs a script"),
        (JobDescription(script=SCRIPT, current_working_directory="/"), "needs an environment"),
        (JobDescription(script=SCRIPT, environment=("A=b",)), "current_working_directory is missing"),
    ],
)
async def test_a_batch_job_without_what_slurm_demands_is_not_sent(wishes: JobDescription, words: str) -> None:
    restd = FakeRestd()
    async with client_of(restd) as slurm:
        with pytest.raises(InvalidRequestError, match=words):
            await slurm.submit(wishes)
    assert restd.requests == []


async def test_a_warning_does_not_mean_that_there_is_no_job() -> None:
    held = {"description": "Job is in held state", "source": "slurm_submit_batch_job()"}
    answer = reply({"job_id": 7, "job_submit_user_msg": "hello", "warnings": [held, held]})
    async with client_of(FakeRestd().on("POST", "job/submit", answer)) as slurm:
        result = await slurm.submit(BATCH)
    warning = SlurmWarning("Job is in held state", "slurm_submit_batch_job()")
    assert result == SubmitResult(job_id=7, warnings=(warning,), user_message="hello")


async def test_an_error_beside_a_job_id_becomes_a_warning_since_the_job_exists() -> None:
    error = {"description": "odd", "error_number": 2050, "error": "policy", "source": "s"}
    async with client_of(FakeRestd().on("POST", "job/submit", reply({"job_id": 7, "errors": [error]}))) as slurm:
        result = await slurm.submit(BATCH)
    assert result == SubmitResult(job_id=7, warnings=(SlurmWarning("odd: policy", "s"),))


async def test_the_first_version_has_the_id_under_result() -> None:
    answer = reply({"result": {"job_id": 9, "error_code": 2042}})
    async with client_of(FakeRestd(40).on("POST", "job/submit", answer)) as slurm:
        assert (await slurm.submit(BATCH)).job_id == 9


@pytest.mark.parametrize(
    ("number", "kind"),
    [(2000, RefusedError), (2014, RefusedError), (11, QueueFullError), (2007, QueueFullError), (2050, CapacityError)],
)
@pytest.mark.parametrize("status", [500, 422])
async def test_a_refused_submission_says_why_whatever_the_status(
    number: int, kind: type[Exception], status: int
) -> None:
    restd = FakeRestd().on("POST", "job/submit", refusal(number, status, error="the cause"))
    async with client_of(restd) as slurm:
        with pytest.raises(kind, match="the cause") as caught:
            await slurm.submit(BATCH)
    assert type(caught.value) is kind
    assert len(restd.requests) == 1


async def test_an_error_with_status_200_is_an_error() -> None:
    async with client_of(FakeRestd().on("POST", "job/submit", refusal(2000, 200))) as slurm:
        with pytest.raises(RefusedError):
            await slurm.submit(BATCH)


async def test_a_job_id_in_a_refusal_is_no_job() -> None:
    error = {"description": "no", "error_number": 2014, "error": "impossible", "source": "s"}
    answer = reply({"job_id": 7, "errors": [error]}, status=500)
    async with client_of(FakeRestd().on("POST", "job/submit", answer)) as slurm:
        with pytest.raises(RefusedError, match="impossible"):
            await slurm.submit(BATCH)


async def test_success_without_a_job_id_is_an_unknown_outcome() -> None:
    async with client_of(FakeRestd().on("POST", "job/submit", reply({"job_id": 0}))) as slurm:
        with pytest.raises(OutcomeUnknownError, match="names no job"):
            await slurm.submit(BATCH)


async def test_an_external_job_is_a_flag_and_has_no_script() -> None:
    restd = FakeRestd(45, release="26.05.5").on("POST", "job/submit", MADE)
    async with client_of(restd) as slurm:
        await slurm.submit(JobDescription(name="x", external=True))
    assert restd.bodies == [{"job": {"name": "x", "flags": ["EXTERNAL_JOB"]}}]


async def test_an_external_job_needs_a_directory_before_25_11() -> None:
    restd = FakeRestd(43, release="25.05.9").on("POST", "job/submit", MADE)
    async with client_of(restd) as slurm:
        with pytest.raises(InvalidRequestError, match="current_working_directory"):
            await slurm.submit(JobDescription(external=True))
        await slurm.submit(JobDescription(external=True, current_working_directory="/"))


async def test_an_external_job_where_there_are_none_is_unsupported_and_not_sent() -> None:
    restd = FakeRestd(42)
    async with client_of(restd) as slurm:
        with pytest.raises(UnsupportedError, match=r"v0\.0\.42 has no external jobs"):
            await slurm.submit(JobDescription(external=True, current_working_directory="/"))
    assert restd.requests == []


async def test_topology_blocks_are_unsupported_in_the_first_version_only() -> None:
    wishes = JobDescription(script=SCRIPT, environment=("A=b",), current_working_directory="/", shared=Shared.TOPO)
    async with client_of(FakeRestd(40).on("POST", "job/submit", MADE)) as slurm:
        with pytest.raises(UnsupportedError, match="shared=topo"):
            await slurm.submit(wishes)
    restd = FakeRestd(41).on("POST", "job/submit", MADE)
    async with client_of(restd) as slurm:
        await slurm.submit(wishes)
    assert restd.bodies[0]["job"] == {
        "script": SCRIPT,
        "environment": ["A=b"],
        "current_working_directory": "/",
        "shared": ["topo"],
    }


async def test_an_allocation_is_always_immediate() -> None:
    restd = FakeRestd(42).on("POST", "job/allocate", reply({"job_id": 8}))
    async with client_of(restd) as slurm:
        result = await slurm.allocate(HOLDING, as_user="alice")
    assert result.job_id == 8
    assert restd.bodies == [
        {
            "job": {
                "name": "x",
                "current_working_directory": "/",
                "memory_per_node": {"set": True, "infinite": False, "number": 100},
                "immediate": True,
            }
        }
    ]
    assert restd.requests[0].headers["x-slurm-user-name"] == "alice"


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        (JobDescription(user_id=1, group_id=1), "give as_user"),
        (BATCH, "no script"),
        (JobDescription(environment=("A=b",)), "no environment"),
        (JobDescription(immediate=False), "would block slurmrestd"),
        (JobDescription(name="x"), "current_working_directory is missing"),
    ],
)
async def test_an_allocation_that_would_go_wrong_is_not_sent(wishes: JobDescription, words: str) -> None:
    restd = FakeRestd(42)
    async with client_of(restd) as slurm:
        with pytest.raises(InvalidRequestError, match=words):
            await slurm.allocate(wishes)
    assert restd.requests == []


@pytest.mark.parametrize("number", [2016, 2013, 2015, 2035, 2078, 2125])
async def test_an_allocation_that_cannot_start_is_refused_once_and_not_tried_again(number: int) -> None:
    restd = FakeRestd(42).on("POST", "job/allocate", refusal(number, 500))
    async with client_of(restd) as slurm:
        with pytest.raises(CapacityError):
            await slurm.allocate(HOLDING)
    assert len(restd.requests) == 1


async def test_an_allocation_before_24_05_is_unsupported() -> None:
    async with client_of(FakeRestd(40, release="23.11.11")) as slurm:
        with pytest.raises(UnsupportedError, match=r"v0\.0\.41 \(Slurm 24\.05\)"):
            await slurm.allocate(HOLDING)
