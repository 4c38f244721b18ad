"""How the extender's `/debug` is reached, and what is said where it is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.builders.kubectl_program import a_node, a_pod, run_plugin
from tests.builders.plain_api import PlainApi

Json = dict[str, Any]

LEASE: Json = {"spec": {"holderIdentity": "slurm-extender-abc_00ff"}}
NO_ORPHAN: Json = {"dryRun": False, "jobs": [], "pods": []}


def a_replica(name: str, ready: str) -> Json:
    return {
        "metadata": {
            "name": name,
            "namespace": "slurm-extender",
            "labels": {"app.kubernetes.io/name": "slurm-extender"},
        },
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def test_the_leaders_loopback_interface_is_reached_through_the_api_server(api: PlainApi) -> None:
    api.pods, api.lease, api.forwards = [a_pod("web", why="An older word.")], LEASE, True
    api.debug = {"placeholders/uid-web": {"why": "A long word. " * 100}}
    said = run_plugin("why", "web")
    assert said.stdout == f"default/web: {'A long word. ' * 100}\n"
    assert said.stderr == ""
    path = "/api/v1/namespaces/slurm-extender/pods/slurm-extender-abc/portforward"
    assert api.forwarded == [(path, "8083")]
    run_plugin("why", "web", "--debug-port", "9000")
    assert api.forwarded[-1] == (path, "9000")


def test_what_debug_does_not_know_is_nothing_and_no_fault(api: PlainApi) -> None:
    api.pods, api.lease, api.forwards, api.debug = [a_pod("web", why="The word.")], LEASE, True, {}
    said = run_plugin("why", "web")
    assert (said.stdout, said.stderr) == ("default/web: The word.\n", "")


def test_a_port_at_which_nothing_listens_is_said_in_one_line(api: PlainApi) -> None:
    api.pods, api.lease, api.forwards = [a_pod("web", why="The word.")], LEASE, True
    said = run_plugin("why", "web")
    assert said.stdout == "default/web: The word.\n"
    assert said.stderr.count("\n") == 1
    assert "connection refused" in said.stderr
    assert "the status on the Pod is shown" in said.stderr


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "closes without an answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "which is not HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{}", "which is not HTTP"),
        (b"HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\n{}", "answers 500"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{{", "does not answer in JSON"),
        (b"HTTP/1.0 200 OK\r\n\r\n[]", "same version"),
    ],
)
def test_a_port_of_something_else_is_said_in_one_line(api: PlainApi, answer: bytes, text: str) -> None:
    api.nodes, api.lease, api.forwards, api.debug, api.at_port = [a_node("n1")], LEASE, True, {}, answer
    said = run_plugin("nodes")
    assert said.exit_code == 0
    assert text in said.stderr
    assert said.stderr.count("\n") == 1


def test_who_may_not_forward_a_port_is_served_by_the_proxy_where_the_site_opened_it(api: PlainApi) -> None:
    api.lease, api.debug = LEASE, {"orphans": NO_ORPHAN}
    assert run_plugin("orphans").stderr == "no orphan\n"
    assert any(":8083/proxy/debug/orphans" in one for one in api.requests)


def test_a_user_without_either_right_gets_the_role_that_allows_it(api: PlainApi) -> None:
    api.nodes, api.lease = [a_node("n1")], LEASE
    said = run_plugin("nodes")
    assert said.exit_code == 0
    assert said.stderr.count("\n") == 1
    assert "slurm-extender-debug" in said.stderr


def test_a_single_replica_is_found_by_its_label(api: PlainApi) -> None:
    api.pods = [a_replica("slurm-extender-old", "False"), a_replica("slurm-extender-new", "True")]
    api.forwards, api.debug = True, {"orphans": NO_ORPHAN}
    assert run_plugin("orphans").stderr == "no orphan\n"
    assert [path.split("/")[6] for path, _ in api.forwarded] == ["slurm-extender-new"]


def test_a_missing_leader_is_reported(api: PlainApi) -> None:
    said = run_plugin("orphans")
    assert said.exit_code == 1
    assert "which Pod of the extender leads cannot be read in namespace slurm-extender" in said.stderr


def test_debug_is_read_at_a_url_that_is_given(api: PlainApi) -> None:
    api.debug = {"orphans": NO_ORPHAN}
    said = run_plugin("orphans", "--debug-url", api.url)
    assert said.exit_code == 0
    assert said.stderr == "no orphan\n"


@pytest.mark.parametrize("url", ["ftp://there", "http://", "http://there:many", "8083"])
def test_a_url_that_is_none_is_said(api: PlainApi, url: str) -> None:
    said = run_plugin("orphans", "--debug-url", url)
    assert said.exit_code == 1
    assert "it must read http://HOST:PORT" in said.stderr


def test_jobs_without_a_pod_and_pods_without_a_job_come_with_what_to_do(api: PlainApi) -> None:
    job = {"jobId": 9, "workload": "uid-1", "podFinished": False, "seconds": 75.0, "said": "found"}
    lone = {"key": "uid-2", "pods": ["default/web"], "state": "BOUND", "jobId": 7, "nodes": ["c1"], "reason": ""}
    api.lease, api.debug = LEASE, {"orphans": {"dryRun": False, "jobs": [job], "pods": [lone]}}
    lines = run_plugin("orphans").stdout.splitlines()
    assert lines[1].split()[:5] == ["job-9", "job", "9", "found", "75s"]
    assert "`scancel 9` ends it now" in lines[1]
    assert lines[2].split()[:4] == ["default/web", "pod", "7", "BOUND"]
    assert "squeue -j 7" in lines[2]
    assert run_plugin("orphans", "-o", "name").stdout == "orphan/job-9\norphan/default/web\n"
    api.debug = {"orphans": {"dryRun": True, "jobs": [{**job, "said": "would_be_ended"}], "pods": [lone]}}
    rows = json.loads(run_plugin("orphans", "-o", "json").stdout)
    assert all("orphans.dryRun is on" in row["action"] for row in rows)
    assert set(rows[0]) == set(rows[1]) == {"name", "kind", "job", "workload", "state", "age", "action"}


def test_a_job_of_a_gang_has_no_uid_of_a_pod(api: PlainApi) -> None:
    gang = {"jobId": 9, "workload": "gang-0123", "podFinished": False, "seconds": 75.0, "said": "found"}
    members = {"key": "gang-4567", "pods": ["default/a", "default/b"], "state": "BOUND", "jobId": 7}
    api.lease, api.debug = LEASE, {"orphans": {"dryRun": False, "jobs": [gang], "pods": [members]}}
    rows = json.loads(run_plugin("orphans", "-o", "json").stdout)
    assert [row["workload"] for row in rows] == ["gang-0123", "gang-4567"]
    wide = run_plugin("orphans", "-o", "wide").stdout
    assert "WORKLOAD" in wide
    assert "UID" not in wide


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("orphans", ("orphans",)),
        ("nodes", ("nodes",)),
        ("checks", ("status",)),
        ("placeholders/uid-web", ("why", "web")),
        ("placeholders/uid-web", ("history", "web")),
    ],
)
@pytest.mark.parametrize(
    "answer", [[], {}, "a word", None, 3, {"jobs": 1, "pods": {}, "history": 2, "slurm": "x"}, [1]]
)
def test_an_extender_of_another_version_is_no_traceback(
    api: PlainApi, path: str, words: tuple[str, ...], answer: object
) -> None:
    api.pods, api.nodes, api.lease = [a_pod("web", why="The word.")], [a_node("n1")], LEASE
    api.debug = {path: answer}
    said = run_plugin(*words)
    assert said.exception is None or isinstance(said.exception, SystemExit)
    assert said.exit_code in {0, 1}


@pytest.mark.parametrize(
    ("words", "code"), [(("orphans",), 1), (("nodes",), 0), (("status",), 0)], ids=["orphans", "nodes", "status"]
)
def test_what_an_older_extender_does_not_know_is_said(api: PlainApi, words: tuple[str, ...], code: int) -> None:
    api.nodes, api.lease, api.debug = [a_node("n1")], LEASE, {}
    said = run_plugin(*words)
    assert said.exit_code == code
    assert "check that it has the same version as this program" in said.output


def _check(name: str, *, ok: bool = True, text: str = "") -> Json:
    return {"name": name, "ok": ok, "text": text, "required": True}


def _row_of(said: str, name: str) -> Json:
    (row,) = [one for one in json.loads(said) if one["name"] == name]
    return dict(row)


def test_a_single_replica_works_beside_a_lease_that_was_released_before(api: PlainApi) -> None:
    api.pods, api.lease = [a_replica("slurm-extender-abc", "True")], {"spec": {"holderIdentity": ""}}
    api.debug = {"checks": [_check("cluster"), _check("pods")]}
    said = run_plugin("status", "-o", "json")
    assert said.exit_code == 0, said.output
    assert "a single replica needs no Lease" in _row_of(said.stdout, "leader")["message"]
    api.debug = {"checks": [_check("cluster", ok=False, text="another cluster")]}
    said = run_plugin("status", "-o", "json")
    assert said.exit_code == 1
    assert [row["name"] for row in json.loads(said.stdout) if row["failed"]] == ["cluster"]


@pytest.mark.parametrize("debug", [{"checks": [_check("cluster"), _check("lease", text="nobody leads")]}, {}, None])
def test_no_replica_leads_where_replicas_stand_for_election_or_none_can_be_queried(
    api: PlainApi, debug: Json | None
) -> None:
    api.pods, api.lease = [a_replica("slurm-extender-abc", "True")], {"spec": {"holderIdentity": ""}}
    api.debug = debug
    said = run_plugin("status", "-o", "json")
    assert said.exit_code == 1
    assert _row_of(said.stdout, "leader") == {
        "name": "leader",
        "status": "none",
        "message": "no replica leads now",
        "failed": True,
    }


def test_what_a_newer_extender_adds_is_skipped(api: PlainApi) -> None:
    api.nodes, api.lease = [a_node("n1")], LEASE
    api.debug = {"nodes": {"slurm": [{"kubernetes": "n1", "name": "c1", "state": "IDLE", "new": 1}, "x"], "more": {}}}
    (row,) = json.loads(run_plugin("nodes", "-o", "json").stdout)
    assert (row["slurmNode"], row["slurmState"], row["partitions"], row["held"]) == ("c1", "IDLE", [], "")
