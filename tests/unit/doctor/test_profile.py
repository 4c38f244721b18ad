"""kube-scheduler's configuration: the shipped one is good, and each thing that would hurt is named."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.config.yaml_text import YamlFault
from extender.doctor.checks.scheduler import called_by, profile, schedulers
from extender.doctor.facts import ExpectedProfile, SchedulerConfigFile
from extender.doctor.finding import Verdict
from extender.doctor.gather.deployments import scheduler_documents
from tests.builders.kustomize import CORE, TLS, documents

OK, WARNING, ERROR, SKIPPED = Verdict
[SHIPPED] = documents(CORE / "kube-scheduler.yaml")
[SHIPPED_TLS] = documents(TLS / "kube-scheduler.yaml")
PLAIN = ExpectedProfile("slurm")
SECURE = ExpectedProfile("slurm", https=True, client_certificates=True)

Edit = Callable[[dict[str, Any]], object]


def edited(edit: Edit, shipped: dict[str, Any] = SHIPPED) -> dict[str, Any]:
    document = deepcopy(shipped)
    edit(document)
    return document


def test_the_shipped_configurations_are_good() -> None:
    assert [one.verdict for one in profile(SHIPPED, "f", PLAIN)] == [OK]
    assert [one.verdict for one in profile(SHIPPED_TLS, "f", SECURE)] == [OK]


def extender(index: int = 0, **keys: Any) -> Edit:
    return lambda document: document["extenders"][index].update(keys)


def both_entries(**keys: Any) -> Edit:
    def edit(document: dict[str, Any]) -> None:
        for entry in document["extenders"]:
            entry.update(keys)

    return edit


def one_entry(**keys: Any) -> Edit:
    def edit(document: dict[str, Any]) -> None:
        document["extenders"] = [document["extenders"][1] | document["extenders"][0] | keys]

    return edit


def plugins(*disabled: str) -> Edit:
    def edit(document: dict[str, Any]) -> None:
        document["profiles"][0]["plugins"] = {"multiPoint": {"disabled": [{"name": name} for name in disabled]}}

    return edit


@pytest.mark.parametrize(
    ("edit", "verdict", "said"),
    [
        (lambda d: d["profiles"][0].update(schedulerName="batch"), ERROR, "no profile has the schedulerName slurm"),
        (lambda d: d.pop("profiles"), ERROR, "there is default-scheduler"),
        (lambda d: d.pop("extenders"), ERROR, "no extender whose urlPrefix ends in /scheduler"),
        (both_entries(urlPrefix="http://x:8080/other"), ERROR, "no extender whose urlPrefix"),
        (extender(urlPrefix="http://x:8080/other"), ERROR, "filterVerb is ''"),
        (extender(1, urlPrefix="http://x:8080/other"), ERROR, "bindVerb is ''"),
        (extender(urlPrefix="https://x:8080/scheduler"), ERROR, "http.tls is not set here"),
        (extender(enableHTTPS=True), WARNING, "enableHTTPS is true"),
        (extender(filterVerb=""), ERROR, "filterVerb is ''"),
        (extender(1, bindVerb="Bind"), ERROR, "bindVerb is 'Bind'"),
        (extender(prioritizeVerb="prioritize", weight=1), ERROR, "prioritizeVerb"),
        (extender(nodeCacheCapable=False), ERROR, "nodeCacheCapable"),
        (extender(ignorable=True), ERROR, "ignorable"),
        (extender(managedResources=[{"name": "x/y"}]), ERROR, "managedResources"),
        (extender(httpTimeout="100ms"), WARNING, "httpTimeout of filterVerb is 0.1 s"),
        (extender(httpTimeout="60s"), WARNING, "all Pods may wait that long"),
        (extender(httpTimeout="soon"), ERROR, "httpTimeout of filterVerb is 'soon'"),
        (extender(1, httpTimeout="soon"), ERROR, "httpTimeout of bindVerb is 'soon'"),
        (extender(1, httpTimeout="5s"), WARNING, "below http.bindTimeout (30 s)"),
        (one_entry(), WARNING, "below http.bindTimeout (30 s)"),
        (plugins("DefaultPreemption"), ERROR, "NodeResourcesFit is not disabled"),
        (plugins("NodeResourcesFit"), ERROR, "DefaultPreemption is not disabled"),
        (lambda d: d.pop("percentageOfNodesToScore"), ERROR, "percentageOfNodesToScore is not set"),
        (lambda d: d.update(podMaxBackoffSeconds=300), ERROR, "podMaxBackoffSeconds is 300"),
        (lambda d: d.pop("leaderElection"), ERROR, "the Lease of the cluster's own"),
        (lambda d: d["profiles"].append({"schedulerName": "x"}), ERROR, "its other profiles (x) leave their Bindings"),
        (lambda d: d["extenders"].append({"urlPrefix": "http://y", "bindVerb": "b"}), ERROR, "2 extenders have"),
    ],
)
def test_what_would_hurt_is_named(edit: Edit, verdict: Verdict, said: str) -> None:
    [one] = profile(edited(edit), "f", PLAIN)
    assert one.verdict is verdict
    assert said in one.seen


@pytest.mark.parametrize(
    ("edit", "verdict", "said"),
    [
        (extender(urlPrefix="http://x:8080/scheduler"), ERROR, "every call fails at the first byte"),
        (extender(tlsConfig={"certFile": "c", "keyFile": "k"}), WARNING, "verifies no certificate"),
        (extender(tlsConfig={"caFile": "c"}), ERROR, "requires a certificate of every client"),
    ],
)
def test_a_scheduler_that_speaks_another_version_is_found(edit: Edit, verdict: Verdict, said: str) -> None:
    [one] = profile(edited(edit, SHIPPED_TLS), "f", SECURE)
    assert one.verdict is verdict
    assert said in one.seen


def test_one_entry_for_both_verbs_is_good_with_a_time_out_that_fits() -> None:
    assert [one.verdict for one in profile(edited(one_entry()), "f", replace(PLAIN, bind_timeout_s=5.0))] == [OK]
    assert [one.verdict for one in profile(edited(one_entry(httpTimeout="30s")), "f", PLAIN)] == [OK]


def test_the_name_by_which_the_extenders_certificate_is_known_is_read() -> None:
    assert called_by(SHIPPED_TLS, SECURE) == ["slurm-extender.slurm-extender.svc"]
    named = edited(lambda d: d["extenders"][0]["tlsConfig"].update(serverName="other"), SHIPPED_TLS)
    assert called_by(named, SECURE) == ["other", "slurm-extender.slurm-extender.svc"]
    assert called_by(SHIPPED, PLAIN) == []


def test_profiles_that_the_extender_knows_cost_something_and_work() -> None:
    document = edited(lambda d: d["profiles"].append({"schedulerName": "x"}))
    [one] = profile(document, "f", replace(PLAIN, other_profiles=("x",)))
    assert one.verdict is WARNING
    assert "its other profiles (x) call the extender too" in one.seen


def test_few_nodes_forgive_a_share_of_nodes() -> None:
    document = edited(lambda d: d.pop("percentageOfNodesToScore"))
    assert [one.verdict for one in profile(document, "f", replace(PLAIN, nodes=50))] == [WARNING]


def test_plugins_may_be_disabled_where_they_act() -> None:
    def edit(document: dict[str, Any]) -> None:
        fit, preemption = [{"name": "NodeResourcesFit"}], [{"name": "*"}]
        points = {"preFilter": {"disabled": fit}, "filter": {"disabled": fit}, "postFilter": {"disabled": preemption}}
        document["profiles"][0]["plugins"] = points

    assert [one.verdict for one in profile(edited(edit), "f", PLAIN)] == [OK]


def test_a_kube_scheduler_without_the_profile_is_found() -> None:
    bare = {"kind": "KubeSchedulerConfiguration", "profiles": [{"schedulerName": "default-scheduler"}]}
    [one] = schedulers([SchedulerConfigFile("ConfigMap x/y", bare)], PLAIN)
    assert one.verdict is ERROR
    assert one.seen.startswith("ConfigMap x/y: no profile has the schedulerName slurm")
    assert [one.verdict for one in schedulers([], PLAIN)] == [WARNING]
    assert [one.verdict for one in schedulers(None, PLAIN)] == [SKIPPED]


def test_the_profile_of_another_kube_scheduler_is_not_judged() -> None:
    bare = {"kind": "KubeSchedulerConfiguration", "profiles": [{"schedulerName": "default-scheduler"}]}
    found = schedulers([SchedulerConfigFile("a", bare), SchedulerConfigFile("b", SHIPPED)], PLAIN)
    assert [one.verdict for one in found] == [OK]


def test_two_kube_schedulers_of_one_name_are_wrong() -> None:
    found = list(schedulers([SchedulerConfigFile("a", SHIPPED), SchedulerConfigFile("b", SHIPPED)], PLAIN))
    assert [one.verdict for one in found] == [OK, OK, ERROR]
    assert "2 kube-schedulers serve slurm: a, b" in found[-1].seen


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=4), st.just([1]), st.just({"a": 1}), st.just("http://[")
)
PLACES = (
    *((key,) for key in SHIPPED),
    *(("extenders", index, key) for index in (0, 1) for key in SHIPPED_TLS["extenders"][index]),
    *(("profiles", 0, key) for key in SHIPPED["profiles"][0]),
    *(("extenders", 0), ("profiles", 0), ("leaderElection", "resourceName"), ("profiles", 0, "plugins", "multiPoint")),
)


@settings(max_examples=300, deadline=None)
@given(place=st.sampled_from(PLACES), junk=JUNK)
def test_whatever_stands_in_it_is_judged_and_breaks_nothing(place: tuple[Any, ...], junk: Any) -> None:
    document = deepcopy(SHIPPED_TLS)
    level: Any = document
    for part in place[:-1]:
        level = level[part]
    level[place[-1]] = junk
    assert list(schedulers([SchedulerConfigFile("f", document)], SECURE))


def test_a_text_that_is_no_yaml_is_said() -> None:
    assert scheduler_documents("{{- if .x }}\n") == []
    [one] = schedulers([SchedulerConfigFile("ConfigMap x/y", {}, "line 2: found {")], PLAIN)
    assert (one.verdict, one.seen) == (WARNING, "ConfigMap x/y, line 2: found {")
    with pytest.raises(YamlFault):
        scheduler_documents("kind: KubeSchedulerConfiguration\n{{- if .x }}\n")
