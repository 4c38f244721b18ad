"""The forty traps of slurmrestd, one test for each that a client can meet.

These are not a client's, and are told where a caller reads of them, or met elsewhere:

== ===========================================================================================================
11 an unchanged ``/jobs`` says ``last_update: 0``: that list is never asked for
17 the script's environment holds no HOME and USER: the environment is the caller's, and is sent as it is
22 time limits and warning signals are looked at every 30 s: slurmctld's clockwork
23 preemption overruns its GraceTime until the next scheduler pass: slurmctld's clockwork
24 a required node that is deleted ends the job at slurmctld's next restart: told at ``JobDescription.required_nodes``
36 ``#SBATCH`` lines, SPANK and cli_filter do nothing for REST jobs: told at ``JobDescription.script``
39 slurmrestd ends at SIGHUP, and changed the form of its own socket options: the operator's
40 slurmctld stalls on names that do not resolve: told at ``NewNode.address``
== ===========================================================================================================
"""

from __future__ import annotations

import re
import sys

import httpx
import pytest

from slurmclient import (
    CapacityError,
    ControllerUnavailableError,
    InvalidRequestError,
    JobDescription,
    JobState,
    NewNode,
    NodeUpdate,
    NotFoundError,
    QueueFullError,
    RefusedError,
    Shared,
    SlurmClient,
    StaticToken,
    UnsupportedError,
)
from slurmclient.exchange import Request
from slurmclient.transport import Transport
from tests.builders.byte_server import Act, ByteServer, ok
from tests.builders.slurmrestd_fake import FakeRestd, client_of, plain, refusal, reply

BATCH = JobDescription(name="x", script="#!/bin/sh\n", environment=("A=b",), current_working_directory="/")
MADE = reply({"job_id": 7})


def batch(**wishes: object) -> JobDescription:
    fields = {"script": "#!/bin/sh\n", "environment": ("A=b",), "current_working_directory": "/", **wishes}
    return JobDescription(**fields)  # type: ignore[arg-type]  # the test names the fields


async def sent(description: JobDescription, version: int = 42) -> dict[str, object]:
    """What a submission puts on the wire."""
    restd = FakeRestd(version).on("POST", "job/submit", MADE)
    async with client_of(restd) as slurm:
        await slurm.submit(description)
    job = restd.bodies[0]["job"]
    assert isinstance(job, dict)
    return job


def test_every_trap_is_either_tested_here_or_explained_above() -> None:
    here = sys.modules[__name__]
    tested = {int(found[1]) for name in vars(here) if (found := re.match(r"test_trap_(\d\d)_", name))}
    explained = {int(number) for number in re.findall(r"^(\d\d) ", here.__doc__ or "", re.MULTILINE)}
    assert tested | explained == set(range(1, 41))
    assert not tested & explained


async def test_trap_01_status_200_does_not_mean_success() -> None:
    denied = {"error": {"string": "denied", "code": 2002, "message": "denied"}, "job_id": {"set": True, "number": 5}}
    restd = FakeRestd().on("GET", "diag", refusal(2002, 200)).on("DELETE", "jobs", reply({"status": [denied]}))
    async with client_of(restd) as slurm:
        with pytest.raises(RefusedError):
            await slurm.diag()
        (status,) = await slurm.cancel(5)
    assert (status.code, status.job_ended) == (2002, False)


@pytest.mark.parametrize("version", [40, 41, 45])
async def test_trap_02_jobs_are_cancelled_by_the_call_that_reports_refusals(version: int) -> None:
    restd = FakeRestd(version, release="25.05.9").on("DELETE", "jobs", reply({"status": []}))
    async with client_of(restd) as slurm:
        await slurm.cancel(5)
    assert [request.url.path for request in restd.requests] == [f"/slurm/v0.0.{version}/jobs"]


async def test_trap_03_a_mistyped_signal_or_flag_is_never_sent_since_it_kills() -> None:
    restd = FakeRestd()
    async with client_of(restd) as slurm:
        with pytest.raises(InvalidRequestError):
            await slurm.cancel(5, signal="SIGTRM")
        with pytest.raises(InvalidRequestError):
            await slurm.cancel(5, flags=["BATCH"])
    assert restd.requests == []


async def test_trap_04_a_group_is_a_number_since_its_name_crashes_slurmrestd() -> None:
    with pytest.raises(InvalidRequestError, match="group_id='users'"):
        batch(user_id=1, group_id="users")
    with pytest.raises(InvalidRequestError, match="user_id='alice'"):
        batch(user_id="alice", group_id=1)
    assert (await sent(batch(user_id=1, group_id=100)))["group_id"] == "100"


async def test_trap_05_numbers_are_sent_with_set_true() -> None:
    job = await sent(batch(time_limit_minutes=30, memory_per_node_mb=100, priority=5, kill_warning_delay_s=9))
    for key in ("time_limit", "memory_per_node", "priority", "kill_warning_delay"):
        number = job[key]
        assert isinstance(number, dict)
        assert number["set"] is True


async def test_trap_06_null_and_empty_texts_are_not_sent() -> None:
    job = await sent(batch(partition="", account=None, excluded_nodes=(), nodes=""))
    assert set(job) == {"script", "environment", "current_working_directory"}


@pytest.mark.parametrize("version", [40, 41, 42, 43, 44, 45])
async def test_trap_07_exclusive_use_is_requested_by_the_one_key_that_every_version_reads(version: int) -> None:
    job = await sent(batch(shared=Shared.NONE), version)
    assert job["shared"] == ["none"]
    assert not {"exclusive", "oversubscribe"} & set(job)


async def test_trap_08_a_list_in_a_query_is_a_repeated_key() -> None:
    restd = FakeRestd().on("GET", "jobs/state", reply({"jobs": []}))
    async with client_of(restd) as slurm:
        await slurm.job_states([1, 2])
    assert restd.requests[0].url.query == b"job_id=1&job_id=2"


async def test_trap_09_moments_are_sent_as_uts() -> None:
    job = await sent(batch(begin_time=1795218119, deadline=1795218999), 40)
    assert (job["begin_time"], job["deadline"]) == ("uts1795218119", "uts1795218999")
    restd = FakeRestd(45, release="26.05.5").on("GET", "nodes", httpx.Response(304))
    async with client_of(restd) as slurm:
        await slurm.nodes_if_changed(1795218119)
    assert restd.requests[0].url.query == b"update_time=uts1795218119"


async def test_trap_10_changes_of_nodes_are_not_requested_where_that_fails() -> None:
    restd = FakeRestd(44, release="25.11.8").on("GET", "nodes", reply({"nodes": []}))
    async with client_of(restd) as slurm:
        assert await slurm.nodes_if_changed(1795218119) is not None
    assert restd.requests[0].url.query == b""


async def test_trap_12_states_have_textual_ids_and_the_key_state() -> None:
    answer = reply({"jobs": [{"job_id": "123", "state": ["RUNNING"]}]})
    async with client_of(FakeRestd().on("GET", "jobs/state", answer)) as slurm:
        assert await slurm.job_states() == {123: frozenset({"RUNNING"})}


async def test_trap_13_a_missing_node_is_a_success_with_an_error_numbered_0() -> None:
    error = {
        "description": "Failure to query node nope",
        "error_number": 0,
        "error": "No error",
        "source": "_dump_nodes",
    }
    async with client_of(FakeRestd().on("GET", "node/nope", reply({"errors": [error]}))) as slurm:
        with pytest.raises(NotFoundError, match="Failure to query node nope"):
            await slurm.node("nope")


async def test_trap_14_the_reason_of_a_resumed_node_is_stale() -> None:
    answer = reply({"nodes": [{"name": "n1", "state": ["IDLE"], "reason": "yesterday's"}]})
    async with client_of(FakeRestd().on("GET", "node/n1", answer)) as slurm:
        assert (await slurm.node("n1")).reason == ""


async def test_trap_15_a_node_just_resumed_does_not_respond_and_that_is_reported() -> None:
    answer = reply({"nodes": [{"name": "n1", "state": ["IDLE", "NOT_RESPONDING"]}]})
    async with client_of(FakeRestd().on("GET", "node/n1", answer)) as slurm:
        node = await slurm.node("n1")
        assert (node.responding, node.drained) == (False, False)
        assert not slurm.capabilities.external_nodes


async def test_trap_16_a_user_never_goes_without_group() -> None:
    with pytest.raises(InvalidRequestError, match="group of the token's owner"):
        batch(user_id=1000)
    job = await sent(batch(user_id=1000, group_id=0))
    assert (job["user_id"], job["group_id"]) == ("1000", "0")


async def test_trap_18_a_batch_job_without_environment_is_refused_here_in_one_voice() -> None:
    restd = FakeRestd()
    async with client_of(restd) as slurm:
        for environment in (None, ()):
            with pytest.raises(InvalidRequestError, match="needs an environment"):
                await slurm.submit(batch(environment=environment))
    assert restd.requests == []


@pytest.mark.parametrize("number", [2000, 2014, 2016])
async def test_trap_19_a_refused_submission_costs_one_job_id_not_several(number: int) -> None:
    restd = FakeRestd().on("POST", "job/submit", refusal(number))
    async with client_of(restd) as slurm:
        with pytest.raises((RefusedError, CapacityError)):
            await slurm.submit(BATCH)
    assert len(restd.requests) == 1


async def test_trap_20_the_cpus_of_a_started_job_are_shown_beside_those_requested() -> None:
    answer = reply(
        {
            "jobs": [
                {
                    "job_id": 5,
                    "job_state": ["RUNNING"],
                    "cpus": {"set": True, "infinite": False, "number": 4},
                    "tres_req_str": "cpu=3,mem=100M,node=1",
                }
            ]
        }
    )
    async with client_of(FakeRestd().on("GET", "job/5", answer)) as slurm:
        job = await slurm.job(5)
    assert (job.cpus, job.tres_requested["cpu"]) == (4, 3)


async def test_trap_21_no_requeue_is_said_when_it_is_wished() -> None:
    assert (await sent(batch(requeue=False)))["requeue"] is False
    answer = reply({"jobs": [{"job_id": 5, "job_state": ["PENDING"], "restart_cnt": 2}]})
    async with client_of(FakeRestd().on("GET", "job/5", answer)) as slurm:
        assert (await slurm.job(5)).restart_count == 2


async def test_trap_25_few_connections_are_held_and_all_are_closed() -> None:
    server = ByteServer(ok(b"{}"))
    transport = Transport(["http://a.test"], dial=server)
    for _ in range(20):
        await transport.send(Request("GET", "/x"), {}, sys.maxsize)
    await transport.aclose()
    assert (len(server.connections), server.closed) == (1, 1)
    with pytest.raises(ValueError, match="between 1 and 8"):
        Transport(["http://a.test"], connections=124)


@pytest.mark.parametrize("act", [Act.RESET, Act.CLOSE])
async def test_trap_26_a_read_on_a_connection_that_broke_is_repeated_on_a_fresh_one(act: Act) -> None:
    ping = b'{"pings":[],"meta":{"slurm":{"release":"26.05.5","cluster":"lab"}}}'
    diag = b'{"statistics":{"jobs_running":3},"meta":{"slurm":{"release":"26.05.5"}}}'
    server = ByteServer(ok(ping), act, ok(diag))
    async with SlurmClient(["http://a.test"], StaticToken("t"), dial=server) as slurm:
        assert (await slurm.diag()).jobs_running == 3
    assert len(server.connections) == 2
    assert server.closed == 2


@pytest.mark.parametrize(("number", "status"), [(1, 403), (-1, 500), (1000, 500)])
async def test_trap_27_an_outage_of_slurmctld_is_never_taken_for_a_refusal(number: int, status: int) -> None:
    restd = FakeRestd(45, release="26.05.5").on("DELETE", "jobs", refusal(number, status))
    restd.responding = False
    async with client_of(restd) as slurm:
        with pytest.raises(ControllerUnavailableError):
            await slurm.cancel(5)
        with pytest.raises(ControllerUnavailableError):
            await slurm.find_jobs_by_name("x")


@pytest.mark.parametrize(("number", "status"), [(11, 500), (2007, 422)])
async def test_trap_28_a_full_queue_is_distinguished_from_a_refusal(number: int, status: int) -> None:
    async with client_of(FakeRestd().on("POST", "job/submit", refusal(number, status))) as slurm:
        with pytest.raises(QueueFullError, match="MaxJobCount"):
            await slurm.submit(BATCH)


def test_trap_29_whole_jobs_are_read_one_at_a_time_only() -> None:
    assert not hasattr(SlurmClient, "jobs")


async def test_trap_30_a_path_that_is_not_found_for_a_moment_is_requested_again() -> None:
    restd = FakeRestd(42, release="24.11.1").on("POST", "job/submit", plain(404, "no such url"), MADE)
    async with client_of(restd) as slurm:
        assert (await slurm.submit(BATCH)).job_id == 7
    assert len(restd.requests) == 2


@pytest.mark.parametrize("release", ["23.11.0", "23.11.5"])
async def test_trap_31_releases_that_lack_half_of_the_calls_are_refused(release: str) -> None:
    async with client_of(FakeRestd(40, release=release)) as slurm:
        with pytest.raises(UnsupportedError, match="oldest"):
            await slurm.diag()


@pytest.mark.parametrize("job_id", ["5_1", "5", 5.0, None])
async def test_trap_32_a_task_of_an_array_is_never_cancelled_since_the_array_may_go_with_it(job_id: object) -> None:
    restd = FakeRestd()
    async with client_of(restd) as slurm:
        with pytest.raises(InvalidRequestError, match="job id"):
            await slurm.cancel([job_id])  # type: ignore[list-item]  # what untyped callers may pass
    assert restd.requests == []


async def test_trap_33_a_numeric_name_never_stands_in_a_path() -> None:
    restd = FakeRestd().on("POST", "nodes", reply())
    async with client_of(restd) as slurm:
        await slurm.update_node("0042", NodeUpdate(comment="x"))
    assert restd.bodies == [{"name": ["0042"], "comment": "x"}]


async def test_trap_34_plus_and_comma_are_encoded_in_paths() -> None:
    restd = FakeRestd().on("GET", "node/a%2Bb", reply({"nodes": [{"name": "a+b", "state": ["IDLE"]}]}))
    async with client_of(restd) as slurm:
        await slurm.node("a+b")
    assert restd.requests[0].url.raw_path == b"/slurm/v0.0.42/node/a%2Bb"


async def test_trap_35_not_a_number_and_infinity_are_read() -> None:
    body = b'{"statistics":{"jobs_running":NaN,"bf_cycle_last":Infinity,"jobs_pending":2},"errors":[]}'
    answer = httpx.Response(200, content=body, headers={"content-type": "application/json"})
    async with client_of(FakeRestd().on("GET", "diag", answer)) as slurm:
        diagnostics = await slurm.diag()
    assert (diagnostics.jobs_running, diagnostics.backfill_cycle_last_us, diagnostics.jobs_pending) == (None, None, 2)


def test_trap_37_a_new_node_with_gres_is_one_node_with_its_gres_conf() -> None:
    with pytest.raises(InvalidRequestError, match="gres_conf"):
        NewNode(name="n1", cpus=1, gres="gpu:1")
    with pytest.raises(InvalidRequestError, match="one plain name"):
        NewNode(name="n[1-2]", cpus=1, gres="gpu:1", gres_conf="name=gpu,count=1")


async def test_trap_38_a_cancelled_external_job_without_nodes_is_shown_as_completing() -> None:
    answer = reply({"jobs": [{"job_id": 5, "job_state": ["CANCELLED", "COMPLETING"], "nodes": ""}]})
    async with client_of(FakeRestd().on("GET", "job/5", answer)) as slurm:
        job = await slurm.job(5)
    assert (job.state, job.nodes) == (JobState.CANCELLED, ())
    assert "COMPLETING" in job.flags
