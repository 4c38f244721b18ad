"""`kubectl slurm history` shows entries of all sources in the order of their times."""

from __future__ import annotations

import json

from tests.builders.kubectl_program import a_pod, run_plugin
from tests.builders.plain_api import PlainApi

LEASE = {"spec": {"holderIdentity": "slurm-extender-abc_00ff"}}


def test_pod_events_and_extender_are_shown_in_the_order_of_time(api: PlainApi) -> None:
    pod = a_pod("web", node="n1", gates=["slurm-extender.io/allocation"])
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"},
        {
            "type": "slurm-extender.io/Allocated",
            "status": "False",
            "reason": "SlurmJobQueued",
            "message": "It queues.",
            "lastTransitionTime": "2026-01-01T00:00:03Z",
        },
    ]
    pod["status"]["containerStatuses"] = [
        {
            "name": "main",
            "state": {
                "terminated": {
                    "startedAt": "2026-01-01T00:00:06Z",
                    "finishedAt": "2026-01-01T00:00:07Z",
                    "reason": "Error",
                    "exitCode": 3,
                }
            },
        }
    ]
    pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:38Z", "deletionGracePeriodSeconds": 30}
    api.pods = [pod]
    api.events = [
        {
            "eventTime": "2026-01-01T00:00:02.500000Z",
            "reason": "SlurmJobSubmitted",
            "note": "Slurm job 7",
            "reportingController": "slurm-extender",
        }
    ]
    api.lease = LEASE
    api.debug = {"placeholders/uid-web": {"history": [{"at": 1767225601.25, "line": "ABSENT -> SUBMITTING"}]}}
    said = run_plugin("history", "web", "-o", "json")
    assert said.stderr == ""
    told = [(row["time"][-4:-1].lstrip(":"), row["source"], row["message"]) for row in json.loads(said.stdout)]
    assert told == [
        ("00", "Pod", "created, held by slurm-extender.io/allocation"),
        ("01", "slurm-extender", "ABSENT -> SUBMITTING"),
        ("02", "slurm-extender", "SlurmJobSubmitted: Slurm job 7"),
        ("03", "Pod", "waits (SlurmJobQueued): It queues."),
        ("05", "Pod", "is on Node n1"),
        ("06", "Pod", "container main started"),
        ("07", "Pod", "container main ended: Error, exit code 3"),
        ("08", "Pod", "its deletion was requested, with a grace period of 30 s"),
    ]
    assert run_plugin("history", "web").stdout.splitlines()[0].split() == ["TIME", "SOURCE", "MESSAGE"]
    assert run_plugin("history", "web", "-o", "name").stdout == "pod/web\n"


def test_without_the_extender_the_rest_is_reported(api: PlainApi) -> None:
    api.pods = [a_pod("web")]
    api.events = [{"eventTime": "2026-01-01T00:00:01Z", "reason": "SlurmJobSubmitted", "note": "Slurm job 7"}]
    said = run_plugin("history", "web")
    assert "SlurmJobSubmitted: Slurm job 7" in said.stdout
    assert said.stderr.endswith("the extender's own steps are left out\n")


def test_of_a_pod_that_is_gone_events_and_extender_are_shown(api: PlainApi) -> None:
    about = {"kind": "Pod", "name": "web", "namespace": "default"}
    api.events = [
        {"eventTime": "2026-01-01T00:00:01Z", "reason": "A", "note": "former", "regarding": {**about, "uid": "u1"}},
        {"eventTime": "2026-01-01T00:00:02Z", "reason": "B", "note": "last", "regarding": {**about, "uid": "u2"}},
    ]
    api.lease = LEASE
    api.debug = {"placeholders/u2": {"history": [{"at": 1767225603.0, "line": "BOUND -> GONE"}]}}
    said = run_plugin("history", "web")
    assert said.exit_code == 0
    assert [line.split()[2] for line in said.stdout.splitlines()[1:]] == ["B:", "BOUND"]
    assert said.stderr == "Pod default/web is gone; this is the last one of its name\n"


def test_an_event_that_came_often_says_so(api: PlainApi) -> None:
    api.pods = [a_pod("web")]
    series = {"count": 3, "lastObservedTime": "2026-01-01T00:00:09Z"}
    api.events = [{"eventTime": "2026-01-01T00:00:01Z", "reason": "A", "note": "again", "series": series}]
    (line,) = [one for one in run_plugin("history", "web").stdout.splitlines() if "again" in one]
    assert line.startswith("2026-01-01T00:00:09Z")
    assert line.endswith("A: again (3 times)")
