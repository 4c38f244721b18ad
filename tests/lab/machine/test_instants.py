"""What is read from the logs of both sides, and what counts as an overlap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.apiserver import audit_log
from lab.instants import KubeInstants, SlurmInstants, kube_instants, slurm_instants
from tests.builders.ends import End, Ended, Kind
from tests.builders.overlaps import gaps, overlaps, rows

LOG = """\
[1970-01-01T00:01:40.250] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=1 uid 0
[1970-01-01T00:01:40.300] update_node: node arena-1 reason set to: slurm-extender: Pod a/victim outlives its job 1
[1970-01-01T00:01:41.000] update_node: node arena-2 reason set to: broken fan
[1970-01-01T00:01:50.125] sched: Allocate JobId=2 NodeList=arena-1 #CPUs=7 Partition=preempted-at-once
[1970-01-01T00:01:51.000] Time limit exhausted for JobId=3
[1970-01-01T00:01:52.000] preempted JobId=4 has been killed to reclaim resources for JobId=5
[1970-01-01T00:01:53.000] Killing JobId=6 on failed node arena-6
[1970-01-01T00:01:54.004] TRACE_JOBS: job_signal: [JobId=7] change state: RUNNING -> PREEMPTED,COMPLETING
[1970-01-01T00:01:54.005] TRACE_JOBS: cleanup_completing: [JobId=7] change state: PREEMPTED,COMPLETING -> PREEMPTED
[1970-01-01T00:01:54.006] TRACE_JOBS: select_nodes: [JobId=8] change state: PENDING -> RUNNING
[1970-01-01T00:01:54.006] TRACE_JOBS: prolog_slurmctld: [JobId=8] change state: RUNNING -> RUNNING,CONFIGURING
[1970-01-01T00:02:04.500] prolog_running_decr: Configuration for JobId=8 is complete
[1970-01-01T00:01:54.007] TRACE_JOBS: job_signal: [JobId=8] change state: RUNNING -> RUNNING,SIGNALING
slurmctld: a line without a stamp
"""


def event(verb: str, user: str, code: int, at: str, phase: str = "", **told: str) -> str:
    return json.dumps(
        {
            **({"requestObject": {"status": {"phase": phase}}} if phase else {}),
            "verb": verb,
            "user": {"username": user},
            "objectRef": {"resource": "pods", "namespace": "a", **told},
            "responseStatus": {"code": code},
            "requestReceivedTimestamp": f"1970-01-01T00:01:{at}Z",
        },
        separators=(",", ":"),
    )


def test_slurmctlds_log_shows_ends_starts_and_drains_of_the_extender(tmp_path: Path) -> None:
    (tmp_path / "slurmctld.log").write_text(LOG)
    found = slurm_instants(tmp_path / "slurmctld.log")
    assert found.ended == {1: 100.25, 3: 111.0, 4: 112.0, 6: 113.0, 7: 114.004}
    assert found.given == {2: 110.125, 8: 114.006}
    assert found.configured == {8: 124.5}
    assert found.drained == [(100.3, "arena-1")]


def test_slurmctlds_log_shows_who_was_warned_first_for_a_job_that_preempts(tmp_path: Path) -> None:
    line = "debug:  setting 60 sec preemption grace time for JobId={} to reclaim resources for JobId=9"
    stamped = [f"[1970-01-01T00:01:{second}.500] {line.format(job)}\n" for second, job in ((40, 7), (55, 8))]
    (tmp_path / "slurmctld.log").write_text("".join(stamped))
    assert slurm_instants(tmp_path / "slurmctld.log").warned == {9: (100.5, 7)}


def test_a_pod_is_gone_when_its_kubelet_removed_it_not_when_its_end_was_requested(tmp_path: Path) -> None:
    audit_log(tmp_path).parent.mkdir()
    lines = [
        event("create", "slurm-extender", 201, "31.000001", name="victim", subresource="binding"),
        event("delete", "slurm-extender", 200, "40.0", name="victim"),
        event("delete", "kwok", 200, "49.5", name="victim"),
        event("delete", "kwok", 404, "49.6", name="victim"),
    ]
    audit_log(tmp_path).write_text("".join(f"{line}\n" for line in lines) + lines[0][:-5])  # being written
    found = kube_instants(tmp_path)
    assert (found.gone, found.bound) == ({"a/victim": 109.5}, {"a/victim": 91.000001})


def test_a_pod_is_gone_when_its_kubelet_said_that_no_container_of_it_runs(tmp_path: Path) -> None:
    audit_log(tmp_path).parent.mkdir()
    lines = [
        event("patch", "kwok", 200, "31.0", "Running", name="victim", subresource="status"),
        event("patch", "someone", 200, "40.0", "Failed", name="victim", subresource="status"),
        event("patch", "kwok", 200, "49.25", "Failed", name="victim", subresource="status"),
        event("delete", "kwok", 200, "49.5", name="victim"),
    ]
    audit_log(tmp_path).write_text("".join(f"{line}\n" for line in lines) + lines[0][:-5])  # being written
    assert kube_instants(tmp_path).gone == {"a/victim": 109.25}


def ended(kind: Kind, mode: str, script: float) -> Ended:
    return Ended(End(kind, mode, 9, pod_first=False), "arena-1", "a/victim", 1, 2, "a/next", script)


def test_a_job_starts_with_the_first_line_of_its_script_however_long_it_has_the_node() -> None:
    kube = KubeInstants(gone={"a/victim": 109.5}, bound={"a/next": 120.0})
    slurm = SlurmInstants(given={2: 101.0}, ended={1: 100.25}, drained=[(100.5, "arena-1")])
    fine = gaps(ended(Kind.CANCEL, "batch", 110.0), kube, slurm)
    assert (fine.next_job, fine.next_pod, fine.waited, fine.unfenced) == (0.5, 10.5, 8.5, 0.25)
    assert not overlaps([fine])
    early = [
        gaps(ended(Kind.DOWN, "batch", 109.0), kube, slurm),
        gaps(ended(Kind.CANCEL, "batch", 110.0), KubeInstants(kube.gone, {"a/next": 109.0}), slurm),
    ]
    assert len(overlaps(early)) == 2
    assert [(row["overlaps"], row["given away before"], row["longest wait, s"]) for row in rows([fine, *early])] == [
        ("1", "1", "8.5"),
        ("1", "2", "8.5"),
    ]


def test_a_job_without_a_script_starts_when_it_is_configured_or_cannot_be_judged() -> None:
    kube = KubeInstants(gone={"a/victim": 109.5}, bound={"a/next": 120.0})
    logged = SlurmInstants(given={2: 101.0}, configured={2: 109.0}, ended={1: 100.25})
    assert gaps(ended(Kind.CANCEL, "external", 0.0), kube, logged).next_job == -0.5
    with pytest.raises(KeyError):
        gaps(ended(Kind.CANCEL, "external", 0.0), kube, SlurmInstants(given={2: 101.0}, ended={1: 100.25}))
