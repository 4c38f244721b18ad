"""The policy file is read strictly, and everything wrong with it is said at once, names that nobody knows included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from docs.generate.policy import EXAMPLE, reference, render
from extender.cli import main
from extender.config.faults import ConfigError
from extender.config.load import parse
from extender.config.policy_file import parse_policy
from extender.domain.policy.site import TranslationPolicy
from extender.domain.policy.tenancy import PodPolicy, Range
from extender.domain.translation.annotation_table import TIME_LIMIT

SITE = """\
apiVersion: slurm-extender.io/v1alpha1
kind: ExtenderConfiguration
slurm: {token: hush, users: [{name: alice, uid: 2001, gid: 3001}], groups: [{name: staff, gid: 50}]}
"""
HEAD = "apiVersion: slurm-extender.io/v1alpha1\nkind: PodPolicy\n"
POD = """\
kind: Pod
metadata: {name: p, namespace: team, annotations: {slurm-extender.io/partition: gpu}}
spec: {schedulerName: slurm, containers: [{name: c, resources: {requests: {cpu: 1, memory: 1Gi}}}]}
"""


def read(body: str) -> TranslationPolicy:
    return parse_policy(HEAD + body, "p.yaml", parse(SITE, "site"))


def faults(body: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read(body)
    return caught.value.faults


def call(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, words, input=stdin)


@pytest.mark.parametrize("most", ["720", "12:00:00", "12h", "0-12"])
def test_the_bounds_of_a_time_limit_have_the_forms_of_the_annotation(most: str) -> None:
    limits = f"defaults: {{timeLimit: 90m}}, allow: {{timeLimit: {{atLeast: 1h, atMost: {most}}}}}"
    (rule,) = read(f"rules: [{{name: short, {limits}}}]\n").pods.rules
    assert rule.defaults.get(TIME_LIMIT) == 90
    assert rule.allowed.time_limit == Range(60, 720)
    (fault,) = faults("rules: [{name: short, allow: {timeLimit: {atLeast: 2h, atMost: 90m}}}]\n")
    assert "atLeast is 120 and atMost 90" in fault


def test_the_example_of_the_page_can_be_used() -> None:
    found = parse_policy(EXAMPLE, "example", parse(SITE, "site")).pods
    assert [rule.name for rule in found.rules] == ["interns", "operators"]
    assert found.needs_namespace_labels
    assert found.rules[0].allowed.exclusive == ("false", "user")


def test_the_page_is_what_the_model_says() -> None:
    assert Path("docs/policy.md").read_text(encoding="utf-8") == render()
    assert Path("docs/reference/policy.md").read_text(encoding="utf-8") == reference()


def test_an_empty_policy_says_nothing() -> None:
    assert read("").pods == PodPolicy()


def test_truth_values_are_words_of_exclusive() -> None:
    (rule,) = read("rules: [{name: a, allow: {exclusive: [true, false, none, USER]}}]").pods.rules
    assert rule.allowed.exclusive == ("none", "false", "none", "user")


@pytest.mark.parametrize(
    "text",
    [
        "!!bool perhaps",
        "!!int ''",
        "!!float ''",
        "!!int two",
        "!!timestamp [1]",
        '"\\UFFFFFFFF"',
        '"\\ud800"',
        "9" * 5000,
        "[" * 2000,
        "*nobody",
        "&itself [*itself]",
    ],
)
def test_text_that_cannot_be_read_is_a_fault_and_nothing_worse(text: str) -> None:
    assert faults(f"rules: [{{name: {text}}}]\n")


def test_aliases_that_stand_for_more_and_more_are_a_fault() -> None:
    doubled = "".join(f"- &l{at} [*l{at - 1}, *l{at - 1}]\n" for at in range(1, 40))
    (fault,) = faults(f"rules:\n- &l0 [a, a]\n{doubled}")
    assert "more than" in fault


def test_every_fault_is_said_at_once_with_its_line() -> None:
    said = faults("rules:\n- name: a\n  alow: {}\n- name: b\n  allow: {exclusive: [all], priority: {atMost: high}}\n")
    assert said == (
        "p.yaml, line 5: rules[0].alow: unknown key; did you mean allow?",
        'p.yaml, line 7: rules[1].allow.priority.atMost: "high" is not allowed; it must be a whole number',
        'p.yaml, line 7: rules[1].allow.exclusive[0]: "all" '
        "must be one of none, ok, user, mcs, topo, node, true, false",
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("rules: [{}]", "rules[0].name: missing; it is required: text"),
        ("rules: [{name: a}, {name: a}]", "rules names a more than once"),
        ("rules: [{name: a, allow: {userId: [x y]}}]", "must be a number from 0 to 4294967293, or a name"),
        (
            "rules: [{name: a, allow: {userId: [bob]}}]",
            'rules[0].allow.userId: "bob" is not known; it must be a number',
        ),
        ("rules: [{name: a, allow: {groupId: [bob]}}]", "or a name from slurm.groups"),
        ("rules: [{name: a, defaults: {userId: bob}}]", 'rules[0].defaults.userId: "bob" is not known'),
        ("rules: [{name: a, allow: {nice: {atLeast: 2, atMost: 1}}}]", "atLeast is 2 and atMost 1"),
        *(
            (f"rules: [{{name: a, allow: {{largestGang: {value}}}}}]", "rules[0].allow.largestGang")
            for value in ("0", "-1", "65536", "many", "[3]", "1.5", "{atMost: 3}", "9" * 40, "'²'")
        ),
        ("owners: [{match: {}}]", "neither user nor account is set"),
        ("owners: [{user: bob}]", 'owners[0].user: "bob" is not known'),
        ("owners: [{account: a, group: staff}]", "group is set without user"),
        ("priorityClasses: {a: {}}", "set priority, nice or qos"),
        ("priorityClasses: {a: {nice: x}}", 'priorityClasses.a.nice: "x" is not allowed; it must be a whole number'),
        (
            "rules: [{name: a, match: {podSelector: {matchExpressions: [{key: a, operator: Is}]}}}]",
            "must be one of In, NotIn, Exists, DoesNotExist",
        ),
        (
            "rules: [{name: a, match: {podSelector: {matchExpressions: [{key: a, operator: In}]}}}]",
            "In and NotIn must have values, the others none",
        ),
        ("5", "p.yaml"),
        ("rules: [", "p.yaml, line"),
    ],
)
def test_each_fault_names_what_is_allowed(body: str, said: str) -> None:
    assert any(said in fault for fault in faults(body)), faults(body)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, Path]:
    policy = tmp_path / "policy.yaml"
    policy.write_text(HEAD + "rules: [{name: cpu only, allow: {partition: [cpu]}}]\n")
    (tmp_path / "c.yaml").write_text(SITE + f"jobs: {{policyFile: {policy}}}\n")
    return str(tmp_path / "c.yaml"), policy


def test_the_policy_is_checked_with_the_configuration(files: tuple[str, Path]) -> None:
    config, policy = files
    assert call("check-config", config).exit_code == 0
    policy.write_text(HEAD + "rules: [{name: a, allow: {userId: [carol]}}]\n")
    result = call("check-config", config)
    assert result.exit_code == 2
    assert '"carol" is not known' in result.stderr
    other = policy.with_name("other.yaml")
    other.write_text(HEAD)
    assert call("check-config", config, "--policy", str(other)).exit_code == 0
    policy.unlink()
    assert "cannot be read" in call("check-config", config).stderr


def test_what_the_policy_makes_of_a_pod_is_printed(files: tuple[str, Path]) -> None:
    config, policy = files
    refused = call("translate", "--config", config, "-", stdin=POD)
    assert refused.exit_code == 1
    assert 'not allowed by rule "cpu only" of the policy; it allows cpu' in refused.stdout
    labelled = "match: {namespaceSelector: {matchLabels: {gpus: 'yes'}}}"
    policy.write_text(HEAD + f"rules: [{{name: gpus, {labelled}, defaults: {{qos: q}}}}]\n")
    shown = call("translate", "--config", config, "--namespace-label", "gpus=yes", "-", stdin=POD)
    assert yaml.safe_load(shown.stdout)["job"]["qos"] == "q"
    assert "without --namespace-label" in call("translate", "--config", config, "-", stdin=POD).stdout


def test_a_gang_beyond_its_rule_is_refused_with_the_rule(files: tuple[str, Path]) -> None:
    config, policy = files
    policy.write_text(HEAD + "rules: [{name: interns, allow: {largestGang: 2}}]\n")
    size = "slurm-extender.io/gang: ring, slurm-extender.io/gang-size: '3'"
    refused = call("translate", "--config", config, "-", stdin=POD.replace("slurm-extender.io/partition: gpu", size))
    assert refused.exit_code == 1
    assert 'gang ring with 3 Pods is not allowed by rule "interns" of the policy; it allows at most 2' in (
        " ".join(refused.stdout.split())
    )


def test_the_schema_of_the_policy_is_printed() -> None:
    assert json.loads(call("generate", "schema", "--policy").stdout)["title"] == "PodPolicyDocument"
