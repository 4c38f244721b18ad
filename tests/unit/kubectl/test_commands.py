"""`kubectl slurm`: what it says with nothing but the API server, and what more where `/debug` is reached."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from extender.kubectl.complete import offered
from extender.kubectl.program import main
from tests.builders.plain_api import PlainApi, plain_api

Json = dict[str, Any]

SENTENCE = "Slurm job 7 waits: Jobs of higher priority wait before it (Priority). Partition: batch."


def a_pod(name: str, *, namespace: str = "default", scheduler: str = "slurm", **more: Any) -> Json:
    spec: Json = {"schedulerName": scheduler}
    if "node" in more:
        spec["nodeName"] = more["node"]
    if "gates" in more:
        spec["schedulingGates"] = [{"name": gate} for gate in more["gates"]]
    conditions = []
    if "why" in more:
        one = {"type": "slurm-extender.io/Allocated", "status": "False", "reason": "SlurmQueue", "message": more["why"]}
        conditions.append(one)
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "annotations": more.get("annotations", {}),
        },
        "spec": spec,
        "status": {"phase": "Pending", "conditions": conditions},
    }


def a_node(name: str, *, cordoned: bool = False, annotations: dict[str, str] | None = None, why: str = "") -> Json:
    conditions = [{"type": "Ready", "status": "True"}]
    said = {"type": "slurm-extender.io/SlurmUnavailable", "status": "True" if why else "False", "message": why}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "annotations": annotations or {}, "labels": {}},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"conditions": [*conditions, said]},
    }


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PlainApi]:
    with plain_api() as one:
        config = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
            "clusters": [{"name": "c", "cluster": {"server": one.url}}],
            "users": [{"name": "u", "user": {"token": "a-token"}}],
        }
        file = tmp_path / "config"
        file.write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(file))
        yield one


def asked(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_why_says_the_sentence_that_stands_on_the_pod(api: PlainApi) -> None:
    api.pods = [a_pod("web", why=SENTENCE)]
    said = asked("why", "web")
    assert said.exit_code == 0
    assert said.stdout == f"default/web: {SENTENCE}\n"


def test_why_asks_the_leader_where_it_may(api: PlainApi) -> None:
    api.pods = [a_pod("web", why="An older word.")]
    api.lease = {"spec": {"holderIdentity": "slurm-extender-abc_00ff"}}
    api.debug = {"placeholders/uid-web": {"why": SENTENCE}}
    assert asked("why", "pod/web").stdout == f"default/web: {SENTENCE}\n"


def test_why_of_a_pod_without_a_condition_is_its_last_event(api: PlainApi) -> None:
    api.pods = [a_pod("web")]
    api.events = [
        {"eventTime": "2026-01-01T00:00:02Z", "note": "the later word"},
        {"eventTime": "2026-01-01T00:00:01Z", "note": "the earlier word"},
    ]
    assert asked("why", "web").stdout == "default/web: the later word\n"


def test_why_of_a_pod_of_which_nothing_is_known_says_what_is_missing(api: PlainApi) -> None:
    api.pods = [a_pod("web")]
    assert "The extender has not said why yet." in asked("why", "web").stdout


def test_why_names_gates_of_others(api: PlainApi) -> None:
    api.pods = [a_pod("web", gates=["slurm-extender.io/allocation", "kueue.x-k8s.io/admission"])]
    assert "kueue.x-k8s.io/admission" in asked("why", "web").stdout


def test_why_of_a_pod_that_has_its_node_says_so(api: PlainApi) -> None:
    api.pods = [a_pod("web", node="n1", annotations={"slurm-extender.io/job-id": "7"})]
    assert asked("why", "web").stdout == "default/web: It does not wait: Slurm job 7 has n1 for the Pod.\n"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("why", "nobody"), 1, "there is no Pod nobody in namespace default"),
        (("why", "other"), 1, "its schedulerName is 'default-scheduler', not 'slurm'"),
        (("why",), 2, "Missing argument"),
        (("why", "web", "-o", "xml"), 2, "xml"),
        (("why", "web", "--context", "there"), 2, 'contexts has no "there"; there is: here'),
        (("why", "web", "--kubeconfig", "/no/such/file"), 2, "/no/such/file"),
        (("why", "web", "--server", "http://127.0.0.1:1"), 1, "127.0.0.1"),
        (("why", "web", "--request-timeout", "soon"), 2, "must read as 10s"),
        (("orphans",), 1, "only /debug knows of orphans"),
    ],
)
def test_what_cannot_be_answered_is_said_with_its_exit_code(
    api: PlainApi, words: tuple[str, ...], code: int, text: str
) -> None:
    api.pods = [a_pod("web"), a_pod("other", scheduler="default-scheduler")]
    said = asked(*words)
    assert said.exit_code == code, said.output
    assert text in said.output


def test_jobs_are_a_table_of_pods_of_slurms_scheduler(api: PlainApi) -> None:
    api.pods = [
        a_pod("web", why=SENTENCE),
        a_pod("runs", node="n1", annotations={"slurm-extender.io/job-id": "6"}),
        a_pod("other", scheduler="default-scheduler"),
        a_pod("far", namespace="there"),
    ]
    assert asked("jobs").stdout.splitlines() == [
        "NAME   JOB   STATE     CAUSE        NODE",
        "runs   6     Placed    <none>       n1",
        "web    7     Waiting   SlurmQueue   <none>",
    ]
    assert len(asked("jobs", "-A").stdout.splitlines()) == 4
    assert asked("jobs", "-n", "there", "-o", "name").stdout == "pod/far\n"
    assert SENTENCE in asked("jobs", "-o", "wide").stdout
    assert [one["job"] for one in json.loads(asked("jobs", "-o", "json").stdout)] == [6, 7]
    assert yaml.safe_load(asked("jobs", "-o", "yaml").stdout) == json.loads(asked("jobs", "-o", "json").stdout)


def test_a_copy_of_a_pod_does_not_bear_its_models_job(api: PlainApi) -> None:
    said = {"slurm-extender.io/job-id": "6", "slurm-extender.io/pod": "uid-of-another"}
    api.pods = [a_pod("copy", annotations=said)]
    assert json.loads(asked("jobs", "-o", "json").stdout)[0]["job"] is None


def test_nodes_show_what_stands_on_them_and_say_what_is_left_out(api: PlainApi) -> None:
    api.nodes = [a_node("n1"), a_node("n2", why="DRAIN: bad disk")]
    said = asked("nodes")
    assert said.exit_code == 0
    assert "the states in Slurm are left out" in said.stderr
    assert said.stdout.splitlines()[2].split()[:4] == ["n2", "Ready", "False", "<none>"]
    assert "DRAIN: bad disk" in said.stdout


def test_nodes_show_slurms_states_where_the_extender_tells_them(api: PlainApi) -> None:
    api.nodes = [a_node("n1")]
    api.lease = {"spec": {"holderIdentity": "slurm-extender-abc_00ff"}}
    slurm = {"name": "c1", "kubernetes": "n1", "state": "IDLE+DRAIN", "reason": "x", "partitions": ["batch"]}
    hold = {"node": "c1", "state": "DRAINED", "causes": {"cordoned": "Node n1 is cordoned"}}
    api.debug = {"nodes": {"slurm": [slurm], "holds": [hold]}}
    said = asked("nodes", "n1", "-o", "json")
    assert json.loads(said.stdout)[0] | {"slurmNode": "c1", "slurmState": "IDLE+DRAIN"} == json.loads(said.stdout)[0]
    assert json.loads(said.stdout)[0]["held"] == "Node n1 is cordoned"


def test_drain_cordons_and_resume_uncordons(api: PlainApi) -> None:
    api.nodes = [a_node("n1"), a_node("n2", cordoned=True)]
    assert asked("drain", "n1", "n2").exit_code == 0
    assert asked("resume", "node/n2", "n1").exit_code == 0
    assert [(path, body[-1]["value"]) for path, body in api.patches] == [
        ("/api/v1/nodes/n1", True),
        ("/api/v1/nodes/n2", False),
    ]
    assert api.patches[0][1][0] == {"op": "test", "path": "/metadata/uid", "value": "uid-n1"}


def test_resume_does_not_lift_what_the_extender_or_slurm_put_there(api: PlainApi) -> None:
    api.nodes = [
        a_node("n1", cordoned=True, annotations={"slurm-extender.io/cordoned": "slurm"}),
        a_node("n2", annotations={"slurm-extender.io/slurm-unavailable": "slurm: DRAIN bad disk"}),
        a_node("n3", cordoned=True),
    ]
    said = asked("resume", "n1", "n2", "n3", "n4")
    assert said.exit_code == 1
    assert "scontrol update NodeName=n1 State=RESUME" in said.stderr
    assert "bad disk" in said.stderr
    assert "there is no Node n4" in said.stderr
    assert [path for path, _ in api.patches] == ["/api/v1/nodes/n3"]


def test_status_says_who_leads_and_what_is_wrong(api: PlainApi) -> None:
    api.pods, api.nodes = [a_pod("web", why=SENTENCE)], [a_node("n1")]
    api.lease = {"spec": {"holderIdentity": "slurm-extender-abc_00ff", "renewTime": "2026-01-01T00:00:00Z"}}
    said = asked("status")
    assert said.exit_code == 0, said.output
    assert "slurm-extender-abc" in said.stdout
    assert "1 SlurmQueue" in said.stdout
    api.debug = {"checks": [{"name": "slurm", "ok": False, "text": "away", "required": False}]}
    said = asked("status")
    assert said.exit_code == 1
    assert "away" in said.stdout


def test_status_does_with_what_it_may_see(api: PlainApi) -> None:
    api.pods = [a_pod("web", why=SENTENCE)]
    api.forbidden = ("/api/v1/pods", "/api/v1/nodes", "/apis/coordination.k8s.io")
    said = asked("status")
    assert said.exit_code == 0, said.output
    assert "namespace default, since all may not be listed" in said.stdout
    assert "1 SlurmQueue" in said.stdout


def test_story_is_the_extenders_and_else_the_events(api: PlainApi) -> None:
    api.pods = [a_pod("web")]
    api.events = [{"eventTime": "2026-01-01T00:00:01Z", "reason": "SlurmJobSubmitted", "note": "Slurm job 7"}]
    said = asked("story", "web")
    assert "SlurmJobSubmitted: Slurm job 7" in said.stdout
    assert "these are its Events" in said.stderr
    api.lease = {"spec": {"holderIdentity": "slurm-extender-abc_00ff"}}
    api.debug = {"placeholders/uid-web": {"story": [{"at": 0.0, "line": "ABSENT -> SUBMITTING"}]}}
    assert asked("story", "web").stdout.splitlines()[1] == "1970-01-01T00:00:00Z   ABSENT -> SUBMITTING"


def test_orphans_are_the_extenders(api: PlainApi) -> None:
    api.lease = {"spec": {"holderIdentity": "slurm-extender-abc_00ff"}}
    api.debug = {"orphans": {"dryRun": False, "jobs": [{"jobId": 9, "reason": "no Pod"}], "pods": []}}
    assert asked("orphans").stdout.splitlines()[1].split() == ["job-9", "job", "9", "no", "Pod"]


def test_debug_is_asked_at_a_url_that_is_given(api: PlainApi) -> None:
    api.debug = {"orphans": {"dryRun": False, "jobs": [], "pods": []}}
    said = asked("orphans", "--debug-url", api.url)
    assert said.exit_code == 0
    assert said.stderr == "no orphan\n"
    said = asked("orphans", "--debug-url", "ftp://there")
    assert said.exit_code == 1
    assert "it must read http://HOST:PORT" in said.stderr


def test_whoever_is_named_is_acted_as(api: PlainApi) -> None:
    api.pods = [a_pod("web", why=SENTENCE)]
    words = ("--as", "alice", "--as-group", "one", "--as-group", "two", "--token", "another")
    assert asked("why", "web", *words).exit_code == 0
    assert ("Impersonate-User", "alice") in api.headers
    assert [value for name, value in api.headers if name == "Impersonate-Group"] == ["one", "two"]
    assert ("Authorization", "Bearer another") in api.headers


def test_commands_pods_and_nodes_are_offered_to_the_shell(api: PlainApi) -> None:
    api.pods, api.nodes = [a_pod("web"), a_pod("other", scheduler="x")], [a_node("n1")]
    assert [one.partition("\t")[0] for one in offered([], "st")] == ["status", "story"]
    assert offered(["why"], "w") == ["web"]
    assert offered(["drain"], "") == ["n1"]
    assert "here" in offered(["why", "--context"], "")


def test_nothing_is_offered_where_nothing_can_be_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert offered(["why"], "") == []


def test_doctor_is_the_programs_own(api: PlainApi) -> None:
    said = asked("doctor", "--help")
    assert said.exit_code == 0
    assert "--submit-probe" in said.stdout
    assert asked("doctor", "--config", "/no/such/file").exit_code == 2
