"""The site's policy for Pods, mounted as kubelet does it, on the real parts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders.config_map import MountedConfigMap
from tests.builders.stage import Stage

pytestmark = pytest.mark.modes("batch", slow=("24.11",))
CLASS = "e2e-low"
POLICY = """
apiVersion: slurm-extender.io/v1alpha1
kind: PodPolicy
owners: [{{match: {{namespaces: [{namespace}]}}, user: alice}}]
rules:
- name: interns
  match: {{namespaces: ["{namespace}"]}}
  defaults: {{comment: an intern's}}
  allow: {{partition: {partitions}, timeLimit: {{atMost: 30}}, userId: [], exclusive: ["false", user]}}
priorityClasses: {{{priority}: {{nice: 77}}}}
"""


class Policy(MountedConfigMap):
    """That of one namespace; everybody else's Pods are not spoken of."""

    namespace = ""

    def allows(self, *partitions: str) -> None:
        self.holds(POLICY.format(namespace=self.namespace, partitions=list(partitions), priority=CLASS))


@pytest.fixture
def policy(stage: Stage) -> Iterator[Policy]:
    site = stage.site
    site.kube.api(
        "POST",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": CLASS}, "value": -10, "preemptionPolicy": "Never"},
    )
    found = Policy(site.home / f"policy-of-{stage.namespace}", "policy.yaml")
    found.namespace = stage.namespace
    found.allows("", stage.family.main)
    site.reconfigure({"jobs": {"policyFile": str(found.file)}})
    try:
        yield found
    finally:
        stage.finish()
        site.reconfigure()


def test_a_policy_holds_on_real_jobs_and_is_followed_when_it_is_swapped(stage: Stage, policy: Policy) -> None:
    site, family = stage.site, stage.family
    own = stage.pod("own", priorityClassName=CLASS)
    assert site.bound(own)
    shown = site.scontrol_show_job(stage.job(own).job_id)
    assert shown["UserId"].startswith("alice(2001)")
    assert shown["GroupId"].endswith("(2001)")
    assert (shown["TimeLimit"], shown["Nice"], shown["Comment"]) == ("00:30:00", "77", "an intern's")

    elsewhere = stage.pod("elsewhere", partition=family.tiny)
    long = stage.pod("long", annotations={"slurm-extender.io/time-limit": "31"})
    other = stage.pod("other", annotations={"slurm-extender.io/user-id": "root"})
    alone = stage.pod("alone", annotations={"slurm-extender.io/exclusive": "true"})
    for ref, value in ((elsewhere, family.tiny), (long, "31"), (other, "root"), (alone, "true")):
        told = site.event(ref, "InvalidSlurmSettings")
        assert f'"{value}" is not allowed by rule "interns"' in told
        assert stage.jobs(ref, "all") == []

    policy.allows("", family.main, family.tiny)
    assert site.bound(elsewhere) == family.tiny_node

    policy.holds("rules: {")
    site.wait_for(lambda: site.metric("policy_usable") == 0, "it is found to be broken")
    still = stage.pod("still")
    assert site.bound(still)
    assert site.scontrol_show_job(stage.job(still).job_id)["UserId"].startswith("alice(2001)")
    assert stage.job(own).state == "RUNNING"
    policy.allows(family.main)
    site.wait_for(lambda: site.metric("policy_usable") == 1, "it is mended")
    assert stage.job(elsewhere).state == "RUNNING"
