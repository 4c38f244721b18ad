"""`kubectl slurm`: what it says with nothing but the API server, and what more where `/debug` is reached."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import click
import pytest
import yaml

from kubectl_slurm.complete import offered
from kubectl_slurm.program import main
from tests.builders.kubectl_program import a_node, a_pod, run_plugin
from tests.builders.plain_api import PlainApi

SENTENCE = "Slurm job 7 waits: Higher-priority jobs are ahead of it in the queue (Priority). Partition: batch."


def test_why_says_the_sentence_that_stands_on_the_pod(api: PlainApi) -> None:
    api.pods = [a_pod("web", why=SENTENCE)]
    said = run_plugin("why", "web")
    assert said.exit_code == 0
    assert said.stdout == f"default/web: {SENTENCE}\n"


def test_why_queries_the_leader_where_it_may(api: PlainApi) -> None:
    api.pods = [a_pod("web", why="An older word.")]
    api.lease = {"spec": {"holderIdentity": "slurm-extender-abc_00ff"}}
    api.debug = {"placeholders/uid-web": {"why": SENTENCE}}
    assert run_plugin("why", "pod/web").stdout == f"default/web: {SENTENCE}\n"


def test_why_of_several_pods_is_what_stands_on_them(api: PlainApi) -> None:
    api.pods = [a_pod("web", why=SENTENCE, labels={"app": "web"}), a_pod("far", namespace="there", why="Another.")]
    assert run_plugin("why", "web", "there/far").stdout == f"default/web: {SENTENCE}\nthere/far: Another.\n"
    assert run_plugin("why", "-A", "-l", "app=web").stdout == f"default/web: {SENTENCE}\n"
    assert run_plugin("why", "-l", "app=none").stderr == "no Pod of the scheduler slurm has these labels\n"


def test_flags_may_stand_before_the_command(api: PlainApi) -> None:
    api.pods = [a_pod("far", namespace="there", why=SENTENCE)]
    for words in (("-n", "there"), ("-nthere",), ("--namespace=there",), ("--namespace", "there", "-o", "wide")):
        said = run_plugin(*words, "why", "far")
        assert said.stdout.startswith(f"there/far: {SENTENCE}\n"), said.output
    assert run_plugin("-A", "jobs", "--no-headers").stdout.startswith("there")
    assert run_plugin("--no-such-flag", "jobs").exit_code == 2
    assert run_plugin("-n").exit_code == 2
    assert run_plugin("--version").exit_code == 0


def test_why_of_a_pod_without_a_condition_is_its_last_event(api: PlainApi) -> None:
    api.pods = [a_pod("web")]
    api.events = [
        {"eventTime": "2026-01-01T00:00:02Z", "note": "the later word"},
        {"eventTime": "2026-01-01T00:00:01Z", "note": "the earlier word"},
    ]
    assert run_plugin("why", "web").stdout == "default/web: the later word\n"


def test_why_of_a_pod_of_which_nothing_is_known_says_what_is_missing(api: PlainApi) -> None:
    api.pods = [a_pod("web")]
    assert "The extender has not written a reason yet." in run_plugin("why", "web").stdout


def test_why_names_gates_of_others(api: PlainApi) -> None:
    api.pods = [a_pod("web", gates=["slurm-extender.io/allocation", "kueue.x-k8s.io/admission"])]
    assert "kueue.x-k8s.io/admission" in run_plugin("why", "web").stdout


def test_why_of_a_pod_that_has_its_node_says_so(api: PlainApi) -> None:
    api.pods = [a_pod("web", node="n1", annotations={"status.slurm-extender.io/job-id": "7"})]
    assert run_plugin("why", "web").stdout == "default/web: It does not wait: Slurm job 7 has n1 for the Pod.\n"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("why", "nobody"), 1, "there is no Pod nobody in namespace default"),
        (("why", "other"), 1, "its schedulerName is 'default-scheduler', not 'slurm'"),
        (("why", "web", "-o", "xml"), 2, "xml"),
        (("why", "web", "--context", "there"), 2, 'contexts has no "there"; there is: here'),
        (("why", "web", "--kubeconfig", "/no/such/file"), 2, "/no/such/file"),
        (("why", "web", "--server", "http://127.0.0.1:1"), 1, "127.0.0.1"),
        (("why", "web", "--request-timeout", "soon"), 2, "must read as 10s"),
        (("orphans",), 1, "only the extender lists orphans"),
        (("history", "nobody"), 1, "there is no Pod nobody in namespace default, and no Event about one"),
        (("why", "a/b/c"), 2, "it must read NAME, pod/NAME or NAMESPACE/NAME"),
        (("why", "web", "-l", "app=web"), 2, "not both"),
        (("drain",), 2, "specify Node names"),
        (("drain", "-l", "zone=a"), 1, "no Node has the labels zone=a"),
        (("nodes", "none"), 1, "there is no Node none"),
    ],
)
def test_what_cannot_be_answered_is_said_with_its_exit_code(
    api: PlainApi, words: tuple[str, ...], code: int, text: str
) -> None:
    api.pods = [a_pod("web"), a_pod("other", scheduler="default-scheduler")]
    said = run_plugin(*words)
    assert said.exit_code == code, said.output
    assert text in said.output


def test_jobs_are_a_table_of_pods_of_slurms_scheduler(api: PlainApi) -> None:
    api.date = "Thu, 01 Jan 2026 00:02:30 GMT"
    api.pods = [
        a_pod("web", why=SENTENCE, labels={"app": "web"}),
        a_pod("runs", node="n1", annotations={"status.slurm-extender.io/job-id": "6"}),
        a_pod("other", scheduler="default-scheduler"),
        a_pod("far", namespace="there"),
    ]
    assert run_plugin("jobs").stdout.splitlines() == [
        "NAME   JOB   STATE     REASON           NODE     AGE",
        "runs   6     Placed    <none>           n1       2m30s",
        "web    7     Waiting   SlurmJobQueued   <none>   2m30s",
    ]
    assert run_plugin("jobs", "--no-headers", "-l", "app=web").stdout.split()[:3] == ["web", "7", "Waiting"]
    assert [line.split()[0] for line in run_plugin("jobs", "-A").stdout.splitlines()] == [
        "NAMESPACE",
        "default",
        "default",
        "there",
    ]
    assert run_plugin("jobs", "-n", "there", "-o", "name").stdout == "pod/far\n"
    assert SENTENCE in run_plugin("jobs", "-o", "wide").stdout
    assert [one["job"] for one in json.loads(run_plugin("jobs", "-o", "json").stdout)] == [6, 7]
    assert yaml.safe_load(run_plugin("jobs", "-o", "yaml").stdout) == json.loads(
        run_plugin("jobs", "-o", "json").stdout
    )
    assert run_plugin("jobs", "-n", "nowhere").stderr == "no Pod of the scheduler slurm in namespace nowhere\n"


def test_a_copy_of_a_pod_does_not_bear_its_models_job(api: PlainApi) -> None:
    said = {"status.slurm-extender.io/job-id": "6", "status.slurm-extender.io/pod-uid": "uid-of-another"}
    api.pods = [a_pod("copy", annotations=said)]
    assert json.loads(run_plugin("jobs", "-o", "json").stdout)[0]["job"] is None


def test_nodes_show_what_stands_on_them_and_say_what_is_left_out(api: PlainApi) -> None:
    api.nodes = [a_node("n1"), a_node("n2", why="DRAIN: bad disk")]
    said = run_plugin("nodes")
    assert said.exit_code == 0
    assert "the states in Slurm are left out" in said.stderr
    assert said.stdout.splitlines()[2].split()[:4] == ["n2", "Ready", "False", "<none>"]
    assert "DRAIN: bad disk" in said.stdout


def test_nodes_show_slurms_states_where_the_extender_writes_them(api: PlainApi) -> None:
    api.nodes = [a_node("n1")]
    api.lease = {"spec": {"holderIdentity": "slurm-extender-abc_00ff"}}
    slurm = {"name": "c1", "kubernetes": "n1", "state": "IDLE+DRAIN", "reason": "x", "partitions": ["batch"]}
    hold = {"node": "c1", "state": "DRAINED", "causes": {"cordoned": "Node n1 is cordoned"}}
    api.debug = {"nodes": {"slurm": [slurm], "holds": [hold]}}
    said = run_plugin("nodes", "n1", "-o", "json")
    assert json.loads(said.stdout)[0] | {"slurmNode": "c1", "slurmState": "IDLE+DRAIN"} == json.loads(said.stdout)[0]
    assert json.loads(said.stdout)[0]["held"] == "Node n1 is cordoned"


def test_status_says_who_leads_and_what_is_wrong(api: PlainApi) -> None:
    api.pods, api.nodes = [a_pod("web", why=SENTENCE)], [a_node("n1")]
    api.lease = {"spec": {"holderIdentity": "slurm-extender-abc_00ff", "renewTime": "2026-01-01T00:00:00Z"}}
    api.date = "Thu, 01 Jan 2026 00:00:09 GMT"
    said = run_plugin("status")
    assert said.exit_code == 0, said.output
    assert "slurm-extender-abc" in said.stdout
    assert "1 SlurmJobQueued" in said.stdout
    api.debug = {"checks": [{"name": "slurm", "ok": False, "text": "away", "required": False}]}
    said = run_plugin("status")
    assert said.exit_code == 1
    assert "away" in said.stdout


def test_a_leader_that_renews_and_reports_nothing_is_shown_as_gone(api: PlainApi) -> None:
    held = {
        "holderIdentity": "slurm-extender-abc_00ff",
        "renewTime": "2026-01-01T00:00:00Z",
        "leaseDurationSeconds": 15,
    }
    api.lease, api.date = {"spec": held}, "Thu, 01 Jan 2026 00:00:28 GMT"
    assert run_plugin("status").exit_code == 0
    api.date = "Thu, 01 Jan 2026 00:20:00 GMT"
    said = run_plugin("status", "-o", "json")
    assert said.exit_code == 1
    leader = json.loads(said.stdout)[0]
    assert (leader["status"], leader["failed"]) == ("slurm-extender-abc", True)
    assert "has not renewed the Lease slurm-extender/slurm-extender for 20m" in leader["message"]
    api.debug = {"checks": []}
    assert run_plugin("status").exit_code == 0, "it answers, so it is there, and its clock is wrong"


def test_status_does_with_what_it_may_see(api: PlainApi) -> None:
    api.pods = [a_pod("web", why=SENTENCE)]
    api.forbidden = ("/api/v1/pods", "/api/v1/nodes", "/apis/coordination.k8s.io")
    said = run_plugin("status")
    assert said.exit_code == 0, said.output
    assert "namespace default, since all may not be listed" in said.stdout
    assert "1 SlurmJobQueued" in said.stdout


def test_the_named_user_is_impersonated(api: PlainApi) -> None:
    api.pods = [a_pod("web", why=SENTENCE)]
    words = ("--as", "alice", "--as-group", "one", "--as-group", "two", "--token", "another")
    assert run_plugin("why", "web", *words).exit_code == 0
    assert ("Impersonate-User", "alice") in api.headers
    assert [value for name, value in api.headers if name == "Impersonate-Group"] == ["one", "two"]
    assert ("Authorization", "Bearer another") in api.headers


def test_commands_pods_and_nodes_are_offered_to_the_shell(api: PlainApi) -> None:
    api.pods, api.nodes = [a_pod("web"), a_pod("other", scheduler="x")], [a_node("n1")]
    assert [one.partition("\t")[0] for one in offered([], "o")] == ["options", "orphans"]
    assert offered(["why"], "w") == ["web"]
    assert offered(["drain"], "") == ["n1"]
    assert "here" in offered(["why", "--context"], "")
    assert offered(["-n", "default", "why"], "w") == ["web"]
    assert offered(["-n", "there", "why"], "w") == []


def test_nothing_is_offered_where_nothing_can_be_queried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert offered(["why"], "") == []


def test_doctor_is_the_programs_own(api: PlainApi) -> None:
    said = run_plugin("doctor", "--help")
    assert said.exit_code == 0
    assert "--submit-probe" in said.stdout
    assert run_plugin("doctor", "-h").stdout == said.stdout
    assert said.stdout.splitlines()[0].endswith(" doctor [OPTIONS]")
    for flag in ("--kubeconfig", "--context", "--extender-namespace", "-o, --output", "--slurm-conf", "-h, --help"):
        assert said.stdout.count(f"  {flag} ") == 1, flag
    assert not re.search(r"-n\b|--namespace| options\"", said.stdout)
    pods = run_plugin("-n", "there", "doctor")
    assert (pods.exit_code, "--extender-namespace" in pods.output) == (2, True)
    nowhere = run_plugin(
        "--extender-namespace", "there", "doctor", "--kubeconfig", "/no/such/file", "--context", "here"
    )
    assert nowhere.exit_code == 2
    assert "/no/such/file" in nowhere.output
    assert run_plugin("doctor", "--config", "/no/such/file").exit_code == 2


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("json", '{"findings": [{"check": "slurmrestd", "verdict": "wrong"}], "counts": {"wrong": 1}}\n'),
        ("yaml", "findings:\n- check: slurmrestd\n  verdict: wrong\ncounts:\n  wrong: 1\n"),
        ("name", "check/slurmrestd\n"),
        ("wide", "wrong: slurmrestd\n"),
        ("text", "wrong: slurmrestd\n"),
    ],
)
def test_doctor_prints_in_every_form_with_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch, form: str, text: str
) -> None:
    @click.command()
    @click.option("--output")
    @click.option("--namespace")
    @click.option("--set", "settings", multiple=True)
    def examined(output: str, namespace: str, settings: tuple[str, ...]) -> None:
        assert (namespace, settings) == ("slurm-extender", ("kubernetes.context=there",))
        found = {"findings": [{"check": "slurmrestd", "verdict": "wrong"}], "counts": {"wrong": 1}}
        click.echo(json.dumps(found) if output == "json" else "wrong: slurmrestd")
        sys.exit(1)

    monkeypatch.setattr("extender.cli.doctor.doctor", examined)
    said = run_plugin("doctor", "--context", "there", "-o", form)
    assert said.exit_code == 1
    assert said.stdout == text


VERBS = {"Check", "Confirm", "Cordon", "End", "Explain", "List", "Show", "Undo"}


@pytest.mark.parametrize("name", sorted(main.commands))
def test_a_command_is_described_in_one_short_line_and_shows_how_it_is_called(name: str) -> None:
    said = main.commands[name].short_help or ""
    assert 0 < len(said) <= 45
    assert said.split()[0].rstrip(":") in VERBS
    if name != "options":
        assert f"    kubectl slurm {name}" in run_plugin(name, "--help").stdout


def test_the_flags_of_the_connection_are_listed_once() -> None:
    shown = run_plugin("options").stdout
    for flag in ("--kubeconfig", "--as-group", "--request-timeout", "--extender-namespace", "--debug-url"):
        assert flag in shown
        assert all(
            flag not in run_plugin(name, "--help").stdout for name in ("why", "jobs", "nodes", "status", "drain")
        )


@pytest.mark.parametrize("name", ["nodes", "drain", "resume", "release"])
def test_the_help_of_a_command_about_nodes_offers_no_namespace(name: str) -> None:
    shown = run_plugin(name, "--help").stdout
    assert "--namespace" not in shown
    assert "--output" in shown


def test_the_program_is_called_as_kubectl_calls_it(capsys: pytest.CaptureFixture[str]) -> None:
    main.main(["why", "--help"], standalone_mode=False)
    assert capsys.readouterr().out.startswith("Usage: kubectl slurm why ")
