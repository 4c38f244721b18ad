"""`doctor` as a command: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from extender.cli import main

NOBODY = "http://127.0.0.1:1"


def call(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["doctor", *words], input=stdin)


@pytest.fixture
def nothing_there(tmp_path: Path) -> str:
    """A configuration of a site of which nothing can be reached."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\n"
        f"slurm: {{addresses: ['{NOBODY}'], token: hush}}\nkubernetes: {{kubeconfig: {tmp_path}/none}}\n"
        "observability: {healthBind: '127.0.0.1:1'}\n"
    )
    return str(file)


def test_a_site_that_is_not_reached_is_wrong_and_so_is_the_exit_code(nothing_there: str) -> None:
    result = call("--config", nothing_there)
    assert result.exit_code == 1, result.output
    assert f"error    slurmrestd: {NOBODY}: " in result.stdout
    assert "error    kubernetes: kubeconfig " in result.stdout
    assert "         -> " in result.stdout
    assert "hush" not in result.output


def test_findings_are_printed_as_json(nothing_there: str) -> None:
    result = call("--config", nothing_there, "-o", "json")
    said = json.loads(result.stdout)
    assert said["counts"]["error"] >= 2
    assert {"check", "verdict", "seen", "advice"} == said["findings"][0].keys()


def test_slurm_conf_on_standard_input_is_judged_without_slurmrestd(nothing_there: str) -> None:
    result = call("--config", nothing_there, "--slurm-conf", "-", stdin="KillWait                = 12 sec\n")
    assert "error    KillWait: 12 s, and slurm.killWait says 30 s" in result.stdout


def test_a_configuration_that_cannot_be_used_is_exit_code_2(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("kind: ExtenderConfiguration\n")
    result = call("--config", str(bad))
    assert result.exit_code == 2
    assert "apiVersion: missing" in result.stderr


def test_without_a_configuration_here_or_in_the_cluster_nothing_can_be_checked(tmp_path: Path) -> None:
    result = call("--set", f"kubernetes.kubeconfig={tmp_path}/none")
    assert result.exit_code == 2
    assert "no --config is given, and the cluster has no configuration: kubeconfig" in result.stderr


@pytest.fixture
def hidden_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kubeconfig that the system refuses to look up, as one in a folder that this process may not search."""
    file = str(tmp_path / ("x" * 300) / "config")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", file)
    return file


def test_a_kubeconfig_in_a_folder_that_cannot_be_searched_costs_the_findings_of_kubernetes(
    tmp_path: Path, nothing_there: str, hidden_kubeconfig: str
) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(Path(nothing_there).read_text().replace(f"kubernetes: {{kubeconfig: {tmp_path}/none}}\n", ""))
    result = call("--config", str(file))
    assert result.exit_code == 1, result.output
    assert f"error    slurmrestd: {NOBODY}: " in result.stdout
    assert f"File name too long: '{hidden_kubeconfig}'" in result.stdout


def test_without_a_configuration_a_kubeconfig_that_cannot_be_searched_for_is_exit_code_2(
    hidden_kubeconfig: str,
) -> None:
    result = call()
    assert result.exit_code == 2
    assert f"File name too long: '{hidden_kubeconfig}'" in result.stderr


def test_a_file_without_a_configuration_of_kube_scheduler_is_wrong(tmp_path: Path, nothing_there: str) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("kind: Deployment\n")
    result = call("--config", nothing_there, "--scheduler-config", str(other))
    assert f"error    kube-scheduler: {other}: it contains no KubeSchedulerConfiguration" in result.stdout


def test_a_file_of_kube_scheduler_that_is_none_is_exit_code_2(tmp_path: Path, nothing_there: str) -> None:
    bad = tmp_path / "kube-scheduler.yaml"
    bad.write_text("kind: KubeSchedulerConfiguration\nextenders: [\n")
    result = call("--config", nothing_there, "--scheduler-config", str(bad))
    assert result.exit_code == 2
    assert "a file cannot be read" in result.stderr


@pytest.mark.parametrize("option", ["--slurm-conf", "--scheduler-config"])
@pytest.mark.parametrize(
    "content",
    [b"\xe9\xff kind: KubeSchedulerConfiguration", b"kind: KubeSchedulerConfiguration\nextenders: &a [*a]\n"],
    ids=["no UTF-8", "an alias that holds itself"],
)
def test_a_file_of_garbage_ends_in_a_sentence(tmp_path: Path, nothing_there: str, option: str, content: bytes) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(content)
    result = call("--config", nothing_there, option, str(bad))
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code in {1, 2}
