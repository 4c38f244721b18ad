"""What the configuration says reaches the parts that it is for."""

from __future__ import annotations

import pytest

from extender.config.derive import external_rules, mass_deletion_guard_options, timing, translation_policy
from extender.domain.jobs.job import Mode, RunAs
from extender.domain.nodes.external_nodes import ExternalRules, FeatureRule, TopologyRule
from extender.domain.policy.named import Nameable
from extender.domain.policy.site import (
    DEFAULT_GRES_RULES,
    TimeoutUnit,
    TranslationPolicy,
)
from extender.domain.translation.annotation_table import TIME_LIMIT
from tests.builders.configurations import SLURM, faults, read
from tests.builders.defaults import job_defaults


def test_defaults_of_the_document_are_those_of_the_domain() -> None:
    configuration = read()
    assert translation_policy(configuration) == TranslationPolicy(gres_rules=DEFAULT_GRES_RULES, nameable=Nameable())
    assert mass_deletion_guard_options(configuration).limits.least == 5
    assert timing(configuration).settle == 60


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("'90'", 90), ("90m", 90), ("24h", 1440), ("12:00:00", 720), ("1-00:00:00", 1440), ("30s", 1)],
)
def test_a_time_limit_has_the_forms_of_the_annotation(text: str, minutes: int) -> None:
    configuration = read(f"slurm: {{tokenFile: /t}}\njobs: {{defaults: {{timeLimit: {text}}}}}\n")
    assert configuration.jobs.defaults.get(TIME_LIMIT) == minutes == TIME_LIMIT.form.read(text.strip("'"))


@pytest.mark.parametrize("text", ["0", "-5", "1.5", "true", "soon", "2147483648", "[90]", "''"])
def test_a_time_limit_of_another_form_is_refused_with_those_that_are_allowed(text: str) -> None:
    (fault,) = faults(f"slurm: {{tokenFile: /t}}\njobs: {{defaults: {{timeLimit: {text}}}}}\n")
    assert "jobs.defaults.timeLimit" in fault
    assert "is no time limit; it must be a number of minutes, or a time such as" in fault
    assert fault.endswith("at least 1 min, at most 2147483647 min")


def test_the_site_s_decisions_reach_the_translation() -> None:
    policy = translation_policy(
        read(
            "slurm: {tokenFile: /t, killWait: 60s}\n"
            "scope: {namespaces: [a, b]}\n"
            "jobs:\n"
            "  defaults: {mode: batch, partition: gpu, userId: '0', timeLimit: 60}\n"
            "  namespaceDefaults: {ml: {account: physics}}\n"
            "  allow: [priority]\n"
            "  gres: [{resource: vendor.io/*, gres: 'acc:{1}'}]\n"
            "  gpuTypes: {NVIDIA_L4: l4}\n"
            "  sunkTimeoutUnit: seconds\n"
            "  strictGrace: true\n"
        )
    )
    assert policy.namespaces == frozenset({"a", "b"})
    assert policy.defaults == job_defaults(mode=Mode.BATCH, partition="gpu", user_id="0", time_limit=60)
    assert policy.namespace_defaults == {"ml": job_defaults(account="physics")}
    assert policy.allowed == {"priority"}
    assert policy.gres_rules[0].match("vendor.io/x") == "acc:x"
    assert policy.sunk_timeout_unit is TimeoutUnit.SECONDS
    assert (policy.strict_grace, policy.kill_wait_s) == (True, 60)


def test_users_of_the_cluster_are_known_by_name_and_root_without_an_entry() -> None:
    people = "users: [{name: slurm, uid: 64030, gid: 64031}], groups: [{name: staff, gid: 50}]"
    defaults = "jobs: {defaults: {userId: slurm, groupId: staff}}\n"
    policy = translation_policy(read(f"slurm: {{token: a, {people}}}\n{defaults}"))
    assert (policy.user("slurm"), policy.group("staff")) == (RunAs(64030, 64031), 50)
    assert policy.caller == RunAs(64030, 64031)
    assert translation_policy(read("slurm: {token: a, user: root}\n")).caller == RunAs(0, 0)
    assert translation_policy(read("slurm: {token: a, user: other}\n")).caller is None


EXTERNAL = """
nodes:
  external:
    selector: {matchLabels: {slurm: "yes"}, matchExpressions: [{key: zone, operator: Exists}]}
    nodeSets: [k8s]
    features: [{label: zone, feature: "zone-{value}", nodeSet: true}, {label: gpu, value: "true", feature: gpu}]
    topology: [{topology: tree, under: root, labels: [zone, rack]}]
    settle: 1m
"""


def test_what_is_registered_in_slurm_is_read_and_none_is_without_the_group() -> None:
    assert external_rules(read()) == ExternalRules()
    configuration = read(SLURM + EXTERNAL + "scheduler: {name: other}\n")
    rules = external_rules(configuration)
    assert rules.selector is not None
    assert [rules.selector.selects(labels) for labels in ({"slurm": "yes", "zone": "a"}, {"slurm": "yes"})] == [
        True,
        False,
    ]
    assert rules.features == (FeatureRule("zone", "zone-{value}", None, True), FeatureRule("gpu", "gpu", "true"))
    assert rules.topologies == (TopologyRule("tree", ("zone", "rack"), "root"),)
    assert (rules.node_sets, rules.remove, rules.schedulers) == (("k8s",), False, frozenset({"other"}))
    assert configuration.nodes.settle_delays.settle == 60


@pytest.mark.parametrize(
    ("external", "said"),
    [
        ("{selector: {}}", "selector selects every Node"),
        ("{selector: {matchLabels: {a: b}}, features: [{label: x, feature: 'a b'}]}", "must consist of letters"),
        ("{selector: {matchLabels: {a: b}}, topology: [{topology: 'a:b', labels: [x]}]}", "topology[0].topology"),
        ("{selector: {matchLabels: {a: b}}, topology: [{topology: a, labels: []}]}", "topology[0].labels"),
        ("{nodeSets: [k8s]}", "nodes.external.selector"),
    ],
)
def test_nodes_that_cannot_be_registered_as_it_says_are_refused(external: str, said: str) -> None:
    (fault,) = faults(f"{SLURM}nodes: {{external: {external}}}\n")
    assert said in fault
