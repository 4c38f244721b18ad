"""The command line says what would happen, and fails with words and a code that a script can use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from extender import __version__
from extender.cli import main
from extender.cli.program import SECTIONS
from extender.cli.uninstall.options import InventoryError
from extender.config.load import parse

GOOD = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: hush}\n"

VERBS = {"Check", "Convert", "Create", "Print", "Remove", "Run", "Test", "Watch"}

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ml}
spec:
  schedulerName: slurm
  containers: [{name: c, resources: {limits: {cpu: 1500m, memory: 1Gi, nvidia.com/gpu: 2}}}]
"""

TEMPLATE = "{spec: {schedulerName: slurm, containers: [{name: c, resources: {requests: {cpu: 1, memory: 1Gi}}}]}}"


def call(*words: str, stdin: str | None = None, environ: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, words, input=stdin, env=environ)


@pytest.fixture
def good(tmp_path: Path) -> str:
    (tmp_path / "good.yaml").write_text(GOOD)
    return str(tmp_path / "good.yaml")


def test_a_good_configuration_is_said_to_be_good(good: str) -> None:
    result = call("check-config", good)
    assert (result.exit_code, result.stdout) == (0, f"{good}: OK\n")
    assert call("check-config", "--config", good).stdout == f"{good}: OK\n"
    assert call("check-config").exit_code == call("check-config", good, "--config", good).exit_code == 2


def test_the_configuration_in_force_is_shown_without_secrets(good: str) -> None:
    result = call(
        "check-config", good, "--show", "--set", "slurm.killWait=45s", environ={"SLURM_EXTENDER__HTTP__BIND": ":1"}
    )
    shown = yaml.safe_load(result.stdout)
    assert shown["slurm"]["killWait"] == "45s"
    assert shown["http"]["bind"] == ":1"
    assert "hush" not in result.output


def test_everything_wrong_with_a_configuration_goes_to_standard_error(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(GOOD + "hook: {}\nlimits: {historyRetention: soon}\n")
    result = call("check-config", str(bad))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert f"{bad}, line 4: hook: unknown key; did you mean hooks?\n" in result.stderr
    assert f'{bad}, line 5: limits.historyRetention: "soon" is no duration' in result.stderr


def test_serve_refuses_a_bad_configuration_before_it_does_anything() -> None:
    result = call("serve", "--slurm-kill-wait", "soon", "--components", "syncer")
    assert result.exit_code == 2
    assert '--slurm-kill-wait: slurm.killWait: "soon" is no duration' in result.stderr
    assert "--components: 'syncer'" in result.stderr


def test_serve_takes_no_unknown_flag() -> None:
    result = call("serve", "--slurm-kil-wait", "30s")
    assert result.exit_code == 2
    assert "No such option" in result.stderr


def test_the_job_of_a_pod_is_printed() -> None:
    result = call("translate", "-", stdin=POD)
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["job"] == {
        "title": "ml/p",
        "cpus": 2,
        "memory_mb": 1024,
        "members": 1,
        "gres": {"gpu": 2},
        "mode": "auto",
    }


def test_the_user_of_a_job_is_printed(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(GOOD + "jobs: {defaults: {userId: '1001', groupId: '1002'}}\n")
    result = call("translate", "--config", str(config), "-", stdin=POD)
    assert yaml.safe_load(result.stdout)["job"]["run_as"] == {"uid": 1001, "gid": 1002}


def test_what_is_wrong_with_a_pod_is_printed_and_fails() -> None:
    result = call(
        "translate", "-", stdin="{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}"
    )
    assert result.exit_code == 1
    [document] = [one for one in yaml.safe_load_all(result.stdout) if one]
    assert len(document["refused"]) == 2
    assert "schedulerName is not set, not slurm" in result.stdout


def test_one_bad_pod_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD + "---\n" + POD.replace("1500m", "0"))
    (tmp_path / "b.yaml").write_text(POD)
    result = call("translate", str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"))
    kinds = [next(iter(one)) for one in yaml.safe_load_all(result.stdout) if one]
    assert kinds == ["job", "refused", "job"]
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("kind", "spec", "count"),
    [
        *(
            (kind, f"template: {TEMPLATE}", 1)
            for kind in ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job")
        ),
        ("CronJob", f"jobTemplate: {{spec: {{template: {TEMPLATE}}}}}", 1),
        ("LeaderWorkerSet", f"leaderWorkerTemplate: {{leaderTemplate: {TEMPLATE}, workerTemplate: {TEMPLATE}}}", 2),
        ("LeaderWorkerSet", f"leaderWorkerTemplate: {{workerTemplate: {TEMPLATE}}}", 1),
        ("JobSet", f"replicatedJobs: [{{template: {{spec: {{template: {TEMPLATE}}}}}}}, {{}}]", 1),
    ],
)
def test_workloads_are_read_through_their_templates(kind: str, spec: str, count: int) -> None:
    text = (
        f"apiVersion: x/v1\nkind: {kind}\n"
        f"metadata: {{name: w, annotations: {{slurmjob.slinky.slurm.net/partition: gpu}}}}\nspec: {{{spec}}}\n"
    )
    result = call("translate", "-n", "team", "-", stdin=text)
    jobs = [one["job"] for one in yaml.safe_load_all(result.stdout) if one]
    assert [(job["title"], job["partition"]) for job in jobs] == [("team/w", "gpu")] * count


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Job", f"activeDeadlineSeconds: 90, template: {TEMPLATE}"),
        ("CronJob", f"jobTemplate: {{spec: {{activeDeadlineSeconds: 90, template: {TEMPLATE}}}}}"),
        ("JobSet", f"replicatedJobs: [{{template: {{spec: {{activeDeadlineSeconds: 90, template: {TEMPLATE}}}}}}}]"),
    ],
)
def test_the_deadline_of_a_job_is_its_time_limit(kind: str, spec: str) -> None:
    result = call(
        "translate", "-", stdin=f"apiVersion: batch/v1\nkind: {kind}\nmetadata: {{name: w}}\nspec: {{{spec}}}\n"
    )
    assert yaml.safe_load(result.stdout)["job"]["time_limit_minutes"] == 2


def test_lists_are_read_item_by_item() -> None:
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(POD), {"kind": "ConfigMap"}]})
    assert call("translate", "-", stdin=items).stdout.count("job:") == 1


@pytest.mark.parametrize(
    "text", ["", "kind: ConfigMap", "5", "a: b", "{", "kind: Pod\nspec: 5", "kind: Pod\nmetadata: 5"]
)
def test_what_holds_no_pod_is_refused_with_a_sentence(text: str) -> None:
    result = call("translate", "-", stdin=text)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")


def test_the_policy_of_a_configuration_holds(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(GOOD + "jobs: {defaults: {partition: site}}\nscope: {namespaces: [ml]}\nscheduler: {name: ours}\n")
    result = call("translate", "--config", str(file), "--set", "jobs.defaults.qos=low", "-", stdin=POD)
    job = yaml.safe_load(result.stdout)["job"]
    assert (job["partition"], job["qos"]) == ("site", "low")
    elsewhere = call("translate", "--config", str(file), "-", stdin=POD.replace("ml", "other"))
    assert elsewhere.exit_code == 1
    assert "schedulerName is slurm, not ours" in result.stdout


def test_settings_without_a_configuration_are_refused() -> None:
    assert call("translate", "--set", "slurm.user=x", "-", stdin=POD).exit_code == 2


def test_the_schema_is_printed() -> None:
    schema = json.loads(call("generate", "schema").stdout)
    assert schema["title"] == "ExtenderConfiguration"


def test_the_version_is_printed() -> None:
    assert call("version").stdout == f"{__version__}\n"
    assert __version__ in call("--version").stdout


def test_what_is_shown_can_be_used_again(good: str) -> None:
    shown = call("check-config", good, "--show").stdout
    assert parse(shown, "shown").limits == parse(GOOD, "good").limits


def commands(group: click.Group, *before: str) -> Iterator[tuple[str, click.Command]]:
    """Every command with its whole name; the groups themselves are none."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)
        else:
            yield " ".join((*before, name)), command


def test_every_command_is_in_one_section_of_the_help() -> None:
    listed = [path for paths in SECTIONS.values() for path in paths]
    assert sorted(listed) == sorted(path for path, _ in commands(main))


@pytest.mark.parametrize(("path", "command"), list(commands(main)), ids=lambda one: one if isinstance(one, str) else "")
def test_a_command_is_described_in_one_short_line_that_begins_with_a_verb(path: str, command: click.Command) -> None:
    said = command.short_help or ""
    assert 0 < len(said) <= 45
    assert said.split()[0] in VERBS


def test_no_line_of_the_help_is_cut_in_a_narrow_terminal() -> None:
    shown = call("--help", environ={"COLUMNS": "80"}).stdout
    assert not [line for line in shown.splitlines() if line.startswith("  ") and line.endswith("...")]
    assert max(map(len, shown.splitlines())) <= 80
    for title in SECTIONS:
        assert f"\n{title}:\n" in shown


def test_the_help_of_every_command_shows_how_it_is_called() -> None:
    for path, _ in commands(main):
        if path not in {"version", "demo", "simulate", "doctor"}:
            assert f" slurm-extender {path}" in call(*path.split(), "--help").stdout, path


def test_what_users_wrote_forges_no_line_of_an_uninstallation(monkeypatch: pytest.MonkeyPatch, good: str) -> None:
    async def run(_configuration: object, _options: object, say: Callable[[str], None]) -> bool:
        say("kept: the gate of Pod n/a: its schedulerName is x\x1b[8m\n0 removed, 0 kept, 0 need action")
        raise InventoryError("a name with \x1b]0;title\x07")

    monkeypatch.setattr("extender.cli.uninstall.removal.uninstall", run)
    said = call("uninstall", "--config", good)
    assert said.exit_code == 1
    assert not set("\x1b\x07") & set(said.output)
    assert not any(line.startswith("0 removed") for line in said.output.splitlines())
