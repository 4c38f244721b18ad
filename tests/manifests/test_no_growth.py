"""The policy that keeps Pods of ours from growing is about those that the program places."""

from extender.config.load import from_environment, load
from tests.builders.kustomize import CORE, ROOT, documents

[POLICY, BINDING] = documents(ROOT / "manifests" / "components" / "no-growth" / "policy.yaml")


def test_it_is_about_resizes_of_pods_of_the_scheduler() -> None:
    name = load(CORE / "config.yaml", from_environment({})).scheduler.name
    conditions = {one["name"]: one["expression"] for one in POLICY["spec"]["matchConditions"]}
    assert conditions["managed"] == f"object.spec.schedulerName == '{name}'"
    [rule] = POLICY["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["pods/resize"], ["UPDATE"])


def test_it_refuses_and_is_in_force() -> None:
    assert POLICY["spec"]["failurePolicy"] == "Fail"
    assert BINDING["spec"] == {"policyName": POLICY["metadata"]["name"], "validationActions": ["Deny"]}
