"""Both Slurm releases run for real: jobs, tokens, restarts, settings, external nodes."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from lab.clock import wait_until
from lab.errors import LabError
from lab.probe import request
from lab.slurm import Partition, Slurm, SlurmNode

pytestmark = pytest.mark.lab

PATIENCE_S = 60


def job(name: str, **more: Any) -> dict[str, Any]:
    wanted = {
        "name": name,
        "partition": "batch",
        "cpus_per_task": 1,
        "memory_per_node": {"set": True, "number": 100},
        "environment": ["PATH=/usr/bin:/bin"],
        "current_working_directory": "/tmp",
    }
    return {**wanted, **more}


def submit(slurm: Slurm, script: str, name: str, *, user: str = "root", **more: Any) -> int:
    body = {"job": job(name, script=f"#!/bin/sh\n{script}\n", **more)}
    status, answer = slurm.rest("POST", "job/submit", body, user=user)
    assert status == 200, answer
    assert not answer["errors"]
    return int(answer["job_id"])


def states(slurm: Slurm, job_id: int) -> set[str]:
    status, answer = slurm.rest("GET", f"job/{job_id}")
    assert status == 200, answer
    return set(answer["jobs"][0]["job_state"])


def wait_state(slurm: Slurm, job_id: int, state: str) -> None:
    wait_until(
        lambda: state in states(slurm, job_id),
        f"job {job_id} is {state}",
        timeout_s=PATIENCE_S,
        detail=lambda: slurm.run("scontrol", "show", "job", str(job_id)),
    )


def test_the_version_is_the_one_that_slurmctld_reports(slurm: Slurm) -> None:
    _, answer = slurm.rest("GET", "ping")
    assert answer["meta"]["slurm"]["release"] == slurm.version
    assert slurm.version.startswith(f"{slurm.release.name}.")


def test_a_job_submitted_with_a_minted_token_runs_as_that_user(slurm: Slurm) -> None:
    job_id = submit(slurm, "id -un > /tmp/whoami", "whoami", user="alice")
    wait_state(slurm, job_id, "COMPLETED")
    assert slurm.run("cat", "/tmp/whoami").strip() == "alice"


def test_a_token_of_another_key_is_refused(slurm: Slurm, slurm_external: Slurm) -> None:
    url = f"{slurm.rest_url}/slurm/{slurm.release.parser}/diag"
    headers = {"X-SLURM-USER-TOKEN": slurm_external.token()}
    assert request("GET", url, headers=headers)[0] == 511


def test_an_immediate_allocation_gets_gpus(slurm: Slurm) -> None:
    body = {"job": job("gpus", immediate=True, tres_per_node="gres/gpu:h100:8")}
    status, answer = slurm.rest("POST", "job/allocate", body)
    assert status == 200, answer
    job_id = answer["job_id"]
    assert "RUNNING" in states(slurm, job_id)
    slurm.run("scancel", str(job_id))
    wait_state(slurm, job_id, "CANCELLED")


def test_slurmctld_keeps_its_jobs_across_a_restart(slurm: Slurm) -> None:
    job_id = submit(slurm, "sleep 1000", "stays")
    wait_state(slurm, job_id, "RUNNING")
    before = slurm.pid("slurmctld")
    slurm.restart_slurmctld()
    assert slurm.pid("slurmctld") != before
    assert "RUNNING" in states(slurm, job_id)
    slurm.run("scancel", str(job_id))
    wait_state(slurm, job_id, "CANCELLED")


def test_commands_talk_to_their_own_cluster_even_beside_another_one(slurm_24_11: Slurm, slurm_26_05: Slurm) -> None:
    for cluster in (slurm_24_11, slurm_26_05):
        assert cluster.version in cluster.run("scontrol", "--version")
        assert cluster.run("sinfo", "-h", "-N", "-o", "%N").split() == ["node-1", "node-2", "node-3"]
        assert cluster.run("scontrol", "token", "lifespan=60").startswith("SLURM_JWT=")


def test_a_command_that_fails_says_why(slurm_24_11: Slurm) -> None:
    with pytest.raises(LabError, match="Invalid job id"):
        slurm_24_11.run("scontrol", "show", "job", "999999")


def test_external_nodes_run_external_jobs_without_any_slurmd(slurm_external: Slurm) -> None:
    flags = {"flags": ["EXTERNAL_JOB"]}
    status, answer = slurm_external.rest("POST", "job/allocate", {"job": job("external", immediate=True, **flags)})
    assert status == 200, answer
    job_id = answer["job_id"]
    assert "RUNNING" in states(slurm_external, job_id)
    slurm_external.run("scancel", str(job_id))
    wait_state(slurm_external, job_id, "CANCELLED")
    with pytest.raises(LabError, match="no daemon 'external-1'"):
        slurm_external.daemon("external-1")


def test_a_mixed_cluster_has_both_kinds(slurm_mixed: Slurm) -> None:
    _, answer = slurm_mixed.rest("GET", "nodes")
    external = {node["name"]: "EXTERNAL" in node["state"] for node in answer["nodes"]}
    assert external == {"node-1": False, "node-2": False, "external-1": True, "external-2": True}


def test_a_node_can_be_added_at_run_time(slurm_external: Slurm) -> None:
    body = {"node_conf": "NodeName=added-1 CPUs=4 RealMemory=1000 State=EXTERNAL"}
    status, answer = slurm_external.rest("POST", "new/node", body)
    assert (status, answer["errors"]) == (200, [])
    assert "added-1" in slurm_external.run("scontrol", "show", "node", "added-1")
    slurm_external.run("scontrol", "delete", "nodename=added-1")


def test_external_nodes_are_refused_where_slurm_does_not_know_them() -> None:
    with pytest.raises(LabError, match=r"24\.11 knows no State=EXTERNAL"):
        Slurm(release="24.11", external_nodes=[SlurmNode("x")])


def test_settings_and_files_reach_the_daemons(tmp_path: Path) -> None:
    with Slurm(
        release="24.11",
        nodes=[SlurmNode("node-1", cpus=4, memory_mb=4000)],
        partitions=[
            Partition("batch", default=True, preempt_mode="cancel", grace_time_s=7),
            Partition("urgent", priority_tier=10),
        ],
        config={"KillWait": "3", "Epilog": "/lab/etc/epilog.sh"},
        files={"epilog.sh": '#!/bin/sh\necho "$SLURM_JOB_ID" >> /lab/log/epilog\n'},
        workdir=tmp_path,
    ) as slurm:
        settings = slurm.run("scontrol", "show", "config")
        assert "KillWait                = 3 sec" in settings
        assert "GraceTime=7" in slurm.run("scontrol", "show", "partition", "batch")
        job_id = submit(slurm, "true", "short")
        epilog = slurm.home / "log" / "epilog"
        wait_until(epilog.exists, "the Epilog ran", timeout_s=PATIENCE_S)
        assert epilog.read_text().split() == [str(job_id)]
        slurm.reconfigure({"KillWait": "4"})
        assert "KillWait                = 4 sec" in slurm.run("scontrol", "show", "config")


def test_daemons_are_stopped_killed_paused_and_started_again(tmp_path: Path) -> None:
    with Slurm(release="24.11", nodes=[SlurmNode("node-1"), SlurmNode("node-2")], workdir=tmp_path) as slurm:
        slurm.kill_slurmctld()
        _, answer = slurm.rest("GET", "ping")
        assert not answer["pings"][0]["responding"]
        with pytest.raises(LabError, match="slurmctld is not running"):
            slurm.pid("slurmctld")
        slurm.start_slurmctld()
        assert "UP" in slurm.run("scontrol", "ping")

        slurm.stop_slurmrestd()
        with pytest.raises(OSError, match="refused"):
            slurm.rest("GET", "ping")
        slurm.start_slurmrestd()
        assert slurm.rest("GET", "ping")[0] == 200

        first = slurm.pid("node-1")
        slurm.kill_slurmd("node-1")
        with pytest.raises(LabError, match="slurmd-node-1 ended with status -9"):
            slurm.wait_nodes_ready()
        slurm.start_slurmd("node-1")
        assert slurm.pid("node-1") != first
        slurm.wait_nodes_ready()

        paused = slurm.pid("slurmctld")
        os.kill(paused, signal.SIGSTOP)
        slurm.stop_slurmctld()  # a paused process is stopped all the same
        slurm.start_slurmctld()
        assert slurm.pid("slurmctld") != paused


def test_many_slurmds_start_at_once(tmp_path: Path) -> None:
    with Slurm(release="26.05", nodes=[SlurmNode(f"node-{index}") for index in range(20)], workdir=tmp_path) as slurm:
        assert slurm.run("sinfo", "-h", "-o", "%D %T").split() == ["20", "idle"]


def test_a_daemon_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    broken = Slurm(
        release="24.11", nodes=[SlurmNode("node-1")], config={"SelectType": "select/nonsense"}, workdir=tmp_path
    )
    with pytest.raises(LabError, match=r"(?s)ended with status 1.*Unable to process configuration file"), broken:
        pass
