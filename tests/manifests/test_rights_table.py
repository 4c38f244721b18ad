"""`docs/reference/rights.md`, the admission policies and the code name the same writes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extender.config.load import from_environment, load
from extender.domain import wellknown
from extender.domain.devices.views import RESOURCE_CLAIM_FINALIZER
from extender.domain.gangs.pod_groups import INITIALLY_SCHEDULED, SCHEDULED
from extender.kube.announce import REPORTING_CONTROLLER
from tests.builders.kustomize import COMPONENTS, CORE, ROOT, documents
from tests.builders.writes import DENIED, WRITES

POLICY = CORE / "writes-policy.yaml"
ENDINGS = [COMPONENTS / name / "policy.yaml" for name in ("grace-policy", "no-force-deletion")]
OF_GROUPS = COMPONENTS / "pod-groups" / "policy.yaml"
OF_DEVICES = COMPONENTS / "devices" / "policy.yaml"
POLICIES = {
    one["metadata"]["name"]: one
    for path in (POLICY, OF_GROUPS, OF_DEVICES)
    for one in documents(path)
    if one["kind"] == "ValidatingAdmissionPolicy"
}
CONFIGURATION = load(CORE / "config.yaml", from_environment({}))
VERBS = {"POST", "PUT", "PATCH", "DELETE"}
PACKAGE = ROOT / "extender"
OTHERS = {"certificates/secrets.py", "doctor/gather/kubernetes.py", "kubectl/api.py"}
"""What writes with the rights of others: of `slurm-extender-certificates`, and of whoever runs the command."""


def rows() -> dict[str, tuple[str, str]]:
    """Sender and policy of each row of the table."""
    text = (ROOT / "docs" / "reference" / "rights.md").read_text()
    found = re.findall(r"^\| ([^|]+) \| `([A-Za-z.]+)` \| `([a-z-]+)` \|", text, re.MULTILINE)
    return {name: (sender, policy) for name, sender, policy in found}


def writing(path: Path) -> Iterator[str]:
    """The public methods of the classes of a file that send a request which writes, by themselves or by others."""
    for one in ast.parse(path.read_text()).body:
        if isinstance(one, ast.ClassDef):
            methods = [each for each in one.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            sending = {each.name for each in methods if VERBS & {*constants(each)}}
            while more := {each.name for each in methods if called(each) & sending} - sending:
                sending |= more
            yield from (f"{one.name}.{name}" for name in sending if not name.startswith("_"))


def constants(where: ast.AST) -> Iterator[Any]:
    return (each.value for each in ast.walk(where) if isinstance(each, ast.Constant) and isinstance(each.value, str))


def called(where: ast.AST) -> set[str]:
    return {
        each.attr
        for each in ast.walk(where)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self"
    }


def test_each_write_has_a_row_that_names_its_sender_and_its_policy() -> None:
    assert rows() == {name: (one.sender, one.policy) for name, one in WRITES.items()}


def test_each_function_that_writes_has_a_row() -> None:
    found = {name for path in (PACKAGE / "kube").rglob("*.py") for name in writing(path)}
    assert found == {one.sender for one in WRITES.values()}


def test_nothing_else_writes_to_the_api_server() -> None:
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(("kube/", "sim/")) or name in OTHERS:
            continue
        text = path.read_text()
        assert "extender.kube.connection" not in text or not VERBS & {*constants(ast.parse(text))}, name


def test_each_policy_has_a_row_and_requests_that_it_denies() -> None:
    assert {policy for _, policy in rows().values()} == POLICIES.keys()
    assert len(DENIED) > len(WRITES)
    assert sum(one.first for one in DENIED.values()) == len(POLICIES)


def said(policy: str, variable: str) -> set[str]:
    """The names in the list of a variable."""
    [text] = [one["expression"] for one in POLICIES[policy]["spec"]["variables"] if one["name"] == variable]
    return set(re.findall(r"'([^']+)'", text))


def test_the_policies_allow_the_names_that_the_program_writes() -> None:
    assert said("slurm-extender-pods", "keys") == wellknown.STATUS_ANNOTATIONS
    assert said("slurm-extender-pods", "conditions") == {
        wellknown.ALLOCATED_CONDITION,
        wellknown.CONTAINERS_STARTED_CONDITION,
        "DisruptionTarget",
    }
    assert said("slurm-extender-nodes", "keys") == {
        wellknown.UNAVAILABLE_REASON,
        wellknown.CORDONED_BY,
        wellknown.UNCORDONED_MANUALLY,
        wellknown.NATIVE_JOBS,
        wellknown.RELEASED_AT,
        wellknown.FENCE_EVIDENCE,
    }
    assert said("slurm-extender-nodes", "taints") == {
        wellknown.UNAVAILABLE_TAINT,
        wellknown.MANAGED_TAINT,
        wellknown.NATIVE_JOB_TAINT,
    }
    assert said("slurm-extender-pod-groups", "conditions") == {SCHEDULED, INITIALLY_SCHEDULED}
    assert said("slurm-extender-devices", "keys") == {wellknown.JOB_ID}
    assert said("slurm-extender-devices", "finalizers") == {RESOURCE_CLAIM_FINALIZER}
    text = POLICY.read_text()
    assert f"gate.name != '{wellknown.GATE}'" in text
    assert f"one.type != '{wellknown.SLURM_AVAILABLE_CONDITION}'" in text
    assert f"object.reportingController == '{REPORTING_CONTROLLER}'" in text
    lease = CONFIGURATION.leader_election.lease_name
    assert f"object.metadata.name in ['{lease}', '{lease}-checkpoints']" in text


@pytest.mark.parametrize("path", [POLICY, *ENDINGS, OF_GROUPS, OF_DEVICES], ids=lambda path: path.parent.name)
def test_the_policies_are_about_this_account_and_this_scheduler_and_fail_closed(path: Path) -> None:
    text = path.read_text()
    if path not in {OF_GROUPS, OF_DEVICES}:  # these objects name no scheduler
        assert set(re.findall(r"schedulerName == '([^']+)'", text)) == {CONFIGURATION.scheduler.name}
    assert set(re.findall(r"'system:serviceaccount:([^']+:slurm-extender)'", text)) == {"slurm-extender:slurm-extender"}
    policies = [one for one in documents(path) if one["kind"] == "ValidatingAdmissionPolicy"]
    bindings = [one for one in documents(path) if one["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert {one["spec"]["failurePolicy"] for one in policies} == {"Fail"}
    assert {one["spec"]["policyName"] for one in bindings} == {one["metadata"]["name"] for one in policies}
    assert [one["spec"]["validationActions"] for one in bindings] == [["Deny"]] * len(policies)


def test_graces_are_bounded_as_the_configuration_bounds_them() -> None:
    bound = str(int(CONFIGURATION.limits.max_pod_grace))
    assert set(re.findall(r"(?<=<= )[0-9]+", ENDINGS[0].read_text())) == {bound}
    [values] = documents(ROOT / "manifests" / "chart" / "values.yaml")
    assert str(values["maxGraceSeconds"]) == bound
