"""What real slurmrestd of 24.11.5 and 26.05.5 answered, version by version, reads the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurmclient import (
    INFINITE,
    CancelStatus,
    FoundJob,
    Gres,
    JobDescription,
    JobState,
    License,
    NodeAllocation,
    NodeState,
    NotFoundError,
    RefusedError,
    ResourceNode,
    Shared,
    UnsupportedError,
)
from tests.builders.slurmrestd_fake import FakeRestd, client_of, reply

FOLDER = Path(__file__).parent / "golden"
RECORDINGS = sorted(FOLDER.glob("*.json"))
BATCH = JobDescription(name="x", script="#!/bin/sh\n", environment=("A=b",), current_working_directory="/")


class Recording:
    """Answers of one version of one release."""

    def __init__(self, path: Path) -> None:
        self.answers: dict[str, Any] = json.loads(path.read_text())
        self.version = int(path.name.split("-")[0].rpartition(".")[2])
        self.release: str = self.answers["ping"]["meta"]["slurm"]["release"]

    def restd(self, method: str, path: str, answer: str, status: int = 200) -> FakeRestd:
        restd = FakeRestd(self.version, release=self.release)
        return restd.on(method, path, reply(self.answers[answer], status=status))


@pytest.fixture(params=RECORDINGS, ids=lambda path: path.stem)
def recording(request: pytest.FixtureRequest) -> Recording:
    return Recording(request.param)


def test_every_version_was_recorded() -> None:
    assert {Recording(path).version for path in RECORDINGS} == {40, 41, 42, 43, 44, 45}


async def test_a_running_job_reads_the_same_in_every_version(recording: Recording) -> None:
    job_id = recording.answers["job"]["jobs"][0]["job_id"]
    async with client_of(recording.restd("GET", f"job/{job_id}", "job")) as slurm:
        job = await slurm.job(job_id)
    assert (job.job_id, job.name, job.cluster) == (job_id, "team/pod-1-a7f3", "lab")
    assert job.as_of == recording.answers["job"]["last_update"]["number"]
    assert (job.state, job.flags, job.state_reason) == (JobState.RUNNING, frozenset(), "None")
    assert job.state_words == {"RUNNING"}
    assert (job.nodes, job.node_count, job.batch_host, job.batch) == (("node-1",), 1, "node-1", True)
    assert (job.cpus, job.tasks, job.cpus_per_task) == (4, 3, 1)
    assert (job.memory_per_node_mb, job.memory_per_cpu_mb) == (100, None)
    cores, node_cores = ((0, 4), 8) if recording.version > 40 else ((), 0)  # v0.0.40 does not list them
    allocation = NodeAllocation(node="node-1", cpus=4, memory_mb=100, cores=cores, node_cores=node_cores)
    assert job.allocations == (allocation,)
    assert job.gres_detail == ((Gres("gpu", "h100", 2, "0-1"),),)
    assert job.tres_per_node == "gres/gpu:h100:2"
    assert job.tres_requested == {"cpu": 3, "mem": 100, "node": 1, "billing": 3}
    assert job.tres_allocated == {"cpu": 4, "mem": 100, "node": 1, "billing": 4}
    assert (job.user_id, job.user_name, job.group_id, job.group_name) == (1, "daemon", 2, "bin")
    assert (job.comment, job.admin_comment, job.extra) == ("c", "a", "e")
    # Asked for were constraints=h100 and prefer=fast: once started, the preference that was met stands for both.
    assert (job.constraints, job.prefer, job.licenses) == ("fast", "", "matlab:1")
    assert (job.required_nodes, job.excluded_nodes) == (("node-1",), ("node-2",))
    assert (job.time_limit_minutes, job.time_minimum_minutes) == (30, 10)
    assert job.start_time is not None
    assert job.end_time == job.start_time + 30 * 60
    assert (job.preempt_time, job.suspend_time, job.deadline) == (None, None, 2000000000)
    assert (job.partition, job.account, job.qos, job.reservation) == ("main", "", "", "")
    assert (job.requeue, job.nice, job.hold, job.restart_count) == (False, 5, False, 0)
    assert job.required_switches == 1
    assert job.shared is (None if recording.version == 45 else Shared.OVERSUBSCRIBE)
    assert (job.current_working_directory, job.standard_output) == ("/", "/dev/null")
    assert (job.exit_code.status, job.exit_code.return_code, job.exit_code.signal) == (frozenset({"SUCCESS"}), 0, None)
    assert not job.external
    assert (job.array_job_id, job.array_task_id) == (None, None)


async def test_a_waiting_job_reads_the_same_in_every_version(recording: Recording) -> None:
    job_id = recording.answers["pending"]["jobs"][0]["job_id"]
    async with client_of(recording.restd("GET", f"job/{job_id}", "pending")) as slurm:
        job = await slurm.job(job_id)
    assert (job.state, job.state_reason, job.hold, job.priority) == (JobState.PENDING, "JobHeldUser", True, 0)
    assert (job.nodes, job.allocations, job.gres_detail, job.tres_allocated) == ((), (), (), {})
    assert (job.time_limit_minutes, job.end_time, job.start_time) == (INFINITE, None, 1999999000)
    assert job.eligible_time == 1999999000
    assert job.dependency.startswith("afterany:")
    assert (job.shared, job.required_switches, job.requeue) == (None, None, True)


async def test_a_missing_job_is_not_found_in_every_version(recording: Recording) -> None:
    async with client_of(recording.restd("GET", "job/99999", "no_job", 404)) as slurm:
        with pytest.raises(NotFoundError, match="Unable to query JobId=99999"):
            await slurm.job(99999)


async def test_states_read_the_same_in_every_version(recording: Recording) -> None:
    async with client_of(recording.restd("GET", "jobs/state", "jobs_state")) as slurm:
        states = await slurm.job_states()
    assert states[recording.answers["job"]["jobs"][0]["job_id"]] == {"RUNNING"}
    assert states[recording.answers["pending"]["jobs"][0]["job_id"]] == {"PENDING"}
    assert (states.unreadable, states.composite) == ((), {})


async def test_nodes_read_the_same_in_every_version(recording: Recording) -> None:
    async with client_of(recording.restd("GET", "nodes", "nodes")) as slurm:
        nodes = await slurm.nodes()
    assert nodes.unreadable == ()
    assert nodes.last_update is not None
    by_name = {node.name: node for node in nodes}
    busy, drained, down = by_name["node-1"], by_name["node-2"], by_name["123"]
    assert (busy.state, busy.drained, busy.reason) == (NodeState.MIXED, False, "")
    assert (busy.cpus, busy.effective_cpus, busy.allocated_cpus) == (16, 16, 4)
    assert (busy.real_memory_mb, busy.allocated_memory_mb) == (64000, 100)
    assert (busy.gres, busy.gres_used) == ((Gres("gpu", "h100", 4),), (Gres("gpu", "h100", 2, "0-1"),))
    assert (busy.features, busy.active_features) == (("h100", "fast"), ("h100", "fast"))
    assert set(busy.partitions) == {"main", "high"}
    assert (busy.hostname, busy.address, busy.version) == ("localhost", "127.0.0.1", recording.release)
    assert (drained.state, drained.drained, drained.reason, drained.reason_user) == (
        NodeState.IDLE,
        True,
        "disk is ill",
        "root",
    )
    assert drained.reason_time is not None
    assert (down.state, down.version, down.boot_time) == (NodeState.DOWN, "", None)
    external = {node.name for node in nodes if "EXTERNAL" in node.flags}
    assert external == ({"ext-1", "ext-2", "ext-3"} if recording.version >= 44 else set())


async def test_a_missing_node_is_not_found_in_every_version(recording: Recording) -> None:
    async with client_of(recording.restd("GET", "node/nope", "no_node")) as slurm:
        with pytest.raises(NotFoundError, match="no node 'nope'"):
            await slurm.node("nope")


async def test_partitions_read_the_same_in_every_version(recording: Recording) -> None:
    async with client_of(recording.restd("GET", "partitions", "partitions")) as slurm:
        partitions = {partition.name: partition for partition in await slurm.partitions()}
    main, high = partitions["main"], partitions["high"]
    assert (main.nodes, main.node_list) == (("node-1", "node-2"), "node-[1-2]")
    assert (main.priority_tier, main.grace_time_s, main.state) == (1, 10, frozenset({"UP"}))
    assert (main.max_time_minutes, main.default_time_minutes) == (INFINITE, 60)
    assert (main.default_memory_per_node_mb, main.max_memory_per_node_mb) == (None, None)
    assert (main.total_nodes, main.total_cpus) == (2, 32)
    assert (main.oversubscribe, high.oversubscribe, high.oversubscribe_jobs) == ("NO", "FORCE", 2)
    assert (high.priority_tier, high.max_time_minutes, high.grace_time_s) == (10, 120, 0)
    assert (main.allowed_accounts, main.denied_qos, main.qos) == ((), (), "")
    if recording.version == 45:
        assert (main.default, high.default) == (True, False)
        assert (main.preempt_mode, high.preempt_mode) == (frozenset({"CLUSTER_GLOBAL"}), frozenset({"DISABLED"}))
    else:
        assert (main.default, main.preempt_mode) == (None, frozenset())


async def test_reservations_and_licenses_read_the_same_in_every_version(recording: Recording) -> None:
    async with client_of(recording.restd("GET", "reservations", "reservations")) as slurm:
        (reservation,) = await slurm.reservations()
    assert (reservation.name, reservation.nodes, reservation.users) == ("maint", ("node-2",), ("root",))
    assert reservation.flags == {"MAINT", "SPEC_NODES"}
    assert reservation.start_time is not None
    assert reservation.end_time == reservation.start_time + 3600
    assert reservation.tres == {"cpu": 16}
    async with client_of(recording.restd("GET", "licenses", "licenses")) as slurm:
        assert list(await slurm.licenses()) == [
            License(name="matlab", total=4, used=1, free=3, reserved=0, remote=False)
        ]


async def test_shares_without_accounting_are_unsupported_in_every_version(recording: Recording) -> None:
    async with client_of(recording.restd("GET", "shares", "shares")) as slurm:
        with pytest.raises(UnsupportedError, match="no slurmdbd"):
            await slurm.shares()


async def test_diagnostics_read_the_same_in_every_version(recording: Recording) -> None:
    async with client_of(recording.restd("GET", "diag", "diag")) as slurm:
        diagnostics = await slurm.diag()
    assert diagnostics.server_thread_count == 1
    assert diagnostics.jobs_submitted is not None
    assert diagnostics.schedule_cycle_last_us is not None
    assert diagnostics.raw["agent_queue_size"] == diagnostics.agent_queue_size


async def test_the_probe_reads_the_same_in_every_version(recording: Recording) -> None:
    running = recording.answers["job"]["jobs"][0]["job_id"]
    waiting = recording.answers["pending"]["jobs"][0]["job_id"]
    async with client_of(recording.restd("DELETE", "jobs", "found")) as slurm:
        assert await slurm.find_jobs_by_name("x") == (FoundJob(job_id=running, running=True),)
    async with client_of(recording.restd("DELETE", "jobs", "found_pending")) as slurm:
        assert await slurm.find_jobs_by_name("x") == (FoundJob(job_id=waiting, running=False, code=2020),)
    async with client_of(recording.restd("DELETE", "jobs", "found_none")) as slurm:
        assert await slurm.find_jobs_by_name("x") == ()


async def test_cancelling_an_unknown_job_names_it_in_every_version(recording: Recording) -> None:
    async with client_of(recording.restd("DELETE", "jobs", "cancelled_unknown")) as slurm:
        assert await slurm.cancel(99999) == (CancelStatus(job_id=99999, code=2017, message="Invalid job id specified"),)


async def test_submissions_and_updates_read_the_same_in_every_version(recording: Recording) -> None:
    async with client_of(recording.restd("POST", "job/submit", "submitted")) as slurm:
        made = await slurm.submit(BATCH)
    assert made.job_id == recording.answers["submitted"]["job_id"]
    assert made.warnings[0].source == "#/job/nonsense/"
    async with client_of(recording.restd("POST", "job/submit", "refused", 422)) as slurm:
        with pytest.raises(RefusedError, match="Invalid partition name specified") as caught:
            await slurm.submit(BATCH)
    assert caught.value.slurm_errno == 2000
    async with client_of(recording.restd("POST", "job/5", "updated")) as slurm:
        assert await slurm.update_job(5, JobDescription(comment="x")) == ()


async def test_a_ping_reads_the_same_in_every_version(recording: Recording) -> None:
    restd = FakeRestd(recording.version, release=recording.release)
    async with client_of(restd) as slurm:
        ping = await slurm.ping()
    assert ping.responding
    assert [controller.primary for controller in ping.controllers] == [True]
    assert recording.answers["ping"]["pings"][0].keys() >= {"hostname", "latency"}
    real = recording.answers["ping"]["pings"][0]
    words = {"responding", "primary"} if recording.version >= 42 else {"pinged", "mode"}
    assert words <= real.keys()


async def test_the_layout_of_resources_is_read_where_there_is_one(recording: Recording) -> None:
    if recording.version < 44:
        async with client_of(FakeRestd(recording.version, release=recording.release)) as slurm:
            with pytest.raises(UnsupportedError, match=r"v0\.0\.44"):
                await slurm.resources(5)
        return
    async with client_of(recording.restd("GET", "resources/5", "resources")) as slurm:
        assert list(await slurm.resources(5)) == [
            ResourceNode(
                node="node-1",
                sockets=2,
                cores_per_socket=4,
                memory_mb=100,
                core_bitmap="0x11",
                gres=(Gres("gpu", "h100", 2, "0-1"),),
            )
        ]
