"""What is read from the logs of both sides, and what counts as an overlap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.apiserver import audit_log
from lab.instants import KubeInstants, SlurmInstants, kube_instants, slurm_instants
from tests.builders.ends import End, Ended, Kind
from tests.builders.overlaps import WINDOW_S, gaps, overlaps, within_reach

LOG = """\
[1970-01-01T00:01:40.250] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=1 uid 0
[1970-01-01T00:01:40.300] update_node: node arena-1 reason set to: slurm-extender: Pod a/victim outlives its job 1
[1970-01-01T00:01:41.000] update_node: node arena-2 reason set to: broken fan
[1970-01-01T00:01:50.125] sched: Allocate JobId=2 NodeList=arena-1 #CPUs=7 Partition=calm
[1970-01-01T00:01:51.000] Time limit exhausted for JobId=3
[1970-01-01T00:01:52.000] preempted JobId=4 has been killed to reclaim resources for JobId=5
[1970-01-01T00:01:53.000] Killing JobId=6 on failed node arena-6
[1970-01-01T00:01:54.004] TRACE_JOBS: job_signal: [JobId=7] change state: RUNNING -> PREEMPTED,COMPLETING
[1970-01-01T00:01:54.005] TRACE_JOBS: cleanup_completing: [JobId=7] change state: PREEMPTED,COMPLETING -> PREEMPTED
[1970-01-01T00:01:54.006] TRACE_JOBS: select_nodes: [JobId=8] change state: PENDING -> RUNNING,CONFIGURING
[1970-01-01T00:01:54.007] TRACE_JOBS: job_signal: [JobId=8] change state: RUNNING -> RUNNING,SIGNALING
slurmctld: a line without a stamp
"""


def event(verb: str, user: str, code: int, at: str, **told: str) -> str:
    return json.dumps(
        {
            "verb": verb,
            "user": {"username": user},
            "objectRef": {"resource": "pods", "namespace": "a", **told},
            "responseStatus": {"code": code},
            "requestReceivedTimestamp": f"1970-01-01T00:01:{at}Z",
        },
        separators=(",", ":"),
    )


def test_slurmctlds_log_tells_ends_starts_and_drains_of_ours(tmp_path: Path) -> None:
    (tmp_path / "slurmctld.log").write_text(LOG)
    found = slurm_instants(tmp_path / "slurmctld.log")
    assert found.ended == {1: 100.25, 3: 111.0, 4: 112.0, 6: 113.0, 7: 114.004}
    assert found.started == {2: 110.125, 8: 114.006}
    assert found.drained == [(100.3, "arena-1")]


def test_a_pod_is_gone_when_its_kubelet_removed_it_not_when_its_end_was_asked(tmp_path: Path) -> None:
    audit_log(tmp_path).parent.mkdir()
    lines = [
        event("create", "slurm-extender", 201, "31.000001", name="victim", subresource="binding"),
        event("delete", "slurm-extender", 200, "40.0", name="victim"),
        event("delete", "kwok", 200, "49.5", name="victim"),
        event("delete", "kwok", 404, "49.6", name="victim"),
    ]
    audit_log(tmp_path).write_text("\n".join(lines))
    found = kube_instants(tmp_path)
    assert (found.gone, found.bound) == ({"a/victim": 109.5}, {"a/victim": 91.000001})


def ended(kind: Kind, mode: str, script: float) -> Ended:
    return Ended(End(kind, mode, 9, pod_first=False), "arena-1", "a/victim", 1, 2, "a/next", script)


def test_whoever_starts_first_is_what_counts() -> None:
    kube = KubeInstants(gone={"a/victim": 109.5}, bound={"a/next": 120.0})
    slurm = SlurmInstants(started={2: 110.125}, ended={1: 100.25}, drained=[(100.5, "arena-1")])
    fine = gaps(ended(Kind.CANCEL, "batch", 110.0), kube, slurm)
    assert (fine.next_job, fine.next_pod, fine.unfenced) == (0.5, 10.5, 0.25)
    assert not overlaps([fine])
    early = [
        gaps(ended(Kind.CANCEL, "batch", 109.0), kube, slurm),
        gaps(ended(Kind.CANCEL, "batch", 110.0), KubeInstants(kube.gone, {"a/next": 109.0}), slurm),
        gaps(ended(Kind.DELETE, "external", 111.0), kube, SlurmInstants(started={2: 101.0})),
    ]
    assert len(overlaps(within_reach(early))) == 3


def test_a_node_that_slurm_gave_away_before_the_drain_is_excused_for_its_kind_alone() -> None:
    kube = KubeInstants(gone={"a/victim": 109.5}, bound={"a/next": 120.0})
    late = SlurmInstants(ended={1: 100.25}, drained=[(102.0, "arena-1")])
    quick = SlurmInstants(ended={1: 100.25}, drained=[(100.3, "arena-1")])
    assert not within_reach([gaps(ended(Kind.DOWN, "batch", 101.0), kube, late)])
    for kind, log in ((Kind.DOWN, quick), (Kind.NODE_FAIL, late), (Kind.CANCEL, late)):
        assert overlaps(within_reach([gaps(ended(kind, "batch", 101.0), kube, log)]))


def test_nothing_is_excused_after_the_window_or_for_the_next_pod() -> None:
    kube = KubeInstants(gone={"a/victim": 109.5}, bound={"a/next": 120.0})
    log = SlurmInstants(ended={1: 100.25})
    within, late = (gaps(ended(Kind.DOWN, "batch", 100.25 + after), kube, log) for after in (WINDOW_S, WINDOW_S + 0.1))
    pod = gaps(ended(Kind.DOWN, "batch", 101.0), KubeInstants(kube.gone, {"a/next": 109.0}), log)
    assert not within_reach([within])
    assert within_reach([late, pod]) == [late, pod]


def test_a_job_without_a_script_is_judged_by_slurmctlds_log_or_not_at_all() -> None:
    kube = KubeInstants(gone={"a/victim": 109.5}, bound={"a/next": 120.0})
    logged = SlurmInstants(started={2: 109.0}, ended={1: 100.25})
    assert gaps(ended(Kind.CANCEL, "external", 0.0), kube, logged).next_job == -0.5
    with pytest.raises(KeyError):
        gaps(ended(Kind.CANCEL, "external", 0.0), kube, SlurmInstants(ended={1: 100.25}))
