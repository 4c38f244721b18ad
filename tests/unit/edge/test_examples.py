"""Every example can be translated, and becomes as many Slurm jobs as its page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from extender.cli import main
from extender.config.load import parse
from extender.config.policy_file import parse_policy
from extender.domain.wellknown import OPT_OUT

TOP = Path(__file__).parents[3]
EXAMPLES = TOP / "examples"
POLICY = EXAMPLES / "policy-two-tenants.yaml"
OPT_IN = EXAMPLES / "namespace-opt-in.yaml"
"""Its Pods get their scheduler from the cluster: `translate` reads manifests alone."""

MANIFESTS = sorted(path for path in EXAMPLES.glob("*.yaml") if path not in {POLICY, OPT_IN})
ROW = re.compile(r"^\| \[([\w.-]+)\]\(\1\) \| .+? \| (.+?) \|$", re.MULTILINE)
SITE = """\
apiVersion: slurm-extender.io/v1alpha1
kind: ExtenderConfiguration
slurm:
  token: hush
  users: [{name: physics, uid: 2001, gid: 3001}, {name: biology, uid: 2002, gid: 3002}]
"""


def translated(*words: str) -> Result:
    return CliRunner().invoke(main, ["translate", *words])


def rows() -> dict[str, str]:
    """By file: the last cell of its row."""
    return dict(ROW.findall((EXAMPLES / "README.md").read_text(encoding="utf-8")))


def test_the_page_lists_every_example_and_the_user_guide_leads_to_it() -> None:
    assert sorted(rows()) == sorted(path.name for path in EXAMPLES.glob("*.yaml"))
    assert "](../examples/README.md)" in (TOP / "docs/pods.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_an_example_becomes_the_jobs_that_its_row_names(path: Path) -> None:
    result = translated(str(path))
    assert result.exit_code == 0, result.output
    assert "warning" not in result.output
    jobs, nodes = re.fullmatch(r"(\d+)(?: with (\d+) nodes| for each run)?", rows()[path.name]).groups("1")  # type: ignore[union-attr]
    found = [document["job"] for document in yaml.safe_load_all(result.stdout) if document]
    assert [job["members"] for job in found] == [int(nodes)]
    gangs = f"{jobs} gangs such as" if jobs != "1" else "is a gang:"
    several = f" {jobs} Slurm job" if nodes == "1" else gangs
    assert several in result.stdout


def test_the_example_of_a_namespace_has_what_the_policy_of_the_manifests_requires() -> None:
    policy = next(yaml.safe_load_all((TOP / "manifests/components/namespace-opt-in/policy.yaml").read_text()))
    namespace, job, deployment = yaml.safe_load_all(OPT_IN.read_text(encoding="utf-8"))
    assert namespace["metadata"]["labels"] == policy["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"]
    assert "schedulerName" not in job["spec"]["template"]["spec"]
    (annotation,) = deployment["spec"]["template"]["metadata"]["annotations"].items()
    assert annotation == (OPT_OUT, "true")
    assert {one["metadata"]["namespace"] for one in (job, deployment)} == {namespace["metadata"]["name"]}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_time_limits_of_examples_are_text(path: Path) -> None:
    assert re.findall(r"time-limit: \d+$|time-limit: \d+:", path.read_text(encoding="utf-8"), re.MULTILINE) == []


@pytest.mark.parametrize(
    ("namespace", "account", "partition", "uid"),
    [("physics-lab", "physics", "gpu", 2001), ("biology-lab", "biology", "batch", 2002)],
)
def test_each_tenant_of_the_policy_gets_its_account(
    tmp_path: Path, namespace: str, account: str, partition: str, uid: int
) -> None:
    policy = parse_policy(POLICY.read_text(encoding="utf-8"), POLICY.name, parse(SITE, "site"))
    assert [rule.name for rule in policy.pods.rules] == ["physics", "biology"]
    config, pod = tmp_path / "config.yaml", tmp_path / "pod.yaml"
    config.write_text(SITE, encoding="utf-8")
    text = (EXAMPLES / "pod.yaml").read_text(encoding="utf-8")
    pod.write_text(text.replace("slurm-extender.io/partition: gpu", "x: y"), encoding="utf-8")
    words = ["--config", str(config), "--policy", str(POLICY), "-n", namespace]
    result = translated(*words, str(pod))
    assert result.exit_code == 0, result.output
    job = yaml.safe_load(result.stdout)["job"]
    assert (job["account"], job["partition"], job["run_as"]["uid"]) == (account, partition, uid)


def test_a_tenant_may_not_use_the_partition_of_another_one(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(SITE, encoding="utf-8")
    words = ["--config", str(config), "--policy", str(POLICY), "-n", "biology-lab"]
    result = translated(*words, str(EXAMPLES / "pod.yaml"))
    assert result.exit_code == 1
    assert "biology" in result.stdout
