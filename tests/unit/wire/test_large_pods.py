"""A Pod with great many tolerations, terms, gates or resources costs the extender no more than any other Pod."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender.domain.placing.candidates import NeedsKubeScheduler, demands, repels
from extender.domain.views import AntiAffinity, NodeTerm, Requirement
from extender.kube.wire.fields import MOST
from extender.kube.wire.pod import MOST_NAME, read_pod
from tests.builders.pod_views import a_pod

Json = dict[str, Any]
HUGE = 20_000


def affinity(terms: list[Json]) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def expression(*values: str) -> list[Json]:
    return [{"key": "zone", "operator": "In", "values": list(values)}]


def term(*values: str) -> Json:
    return {"matchExpressions": expression(*values)}


def with_requests(count: int) -> Json:
    return {"containers": [{"resources": {"requests": {f"hugepages-{number}": "0" for number in range(count)}}}]}


LARGE: dict[str, tuple[str, Json]] = {
    "tolerations": ("tolerations", {"tolerations": [{}] * HUGE}),
    "labels": ("node selector labels", {"nodeSelector": {f"key-{number}": "" for number in range(HUGE)}}),
    "terms": ("node affinity expressions", affinity([term("a")] * HUGE)),
    "expressions": (
        "node affinity expressions",
        affinity([{"matchExpressions": term("a")["matchExpressions"] * HUGE}]),
    ),
    "values": ("node affinity expressions", affinity([term(*map(str, range(HUGE)))])),
    "resources": ("resources", with_requests(HUGE)),
    "containers": ("containers", {"containers": [{"name": "c"}] * 1000}),
}


def pod(spec: Json) -> str:
    return json.dumps({"metadata": {"uid": "u", "namespace": "default", "name": "web"}, "spec": spec})


@pytest.mark.parametrize("case", LARGE)
def test_what_is_too_large_to_be_compared_with_each_node_is_left_to_kube_scheduler(case: str) -> None:
    what, spec = LARGE[case]
    for given in (pod(spec), json.loads(pod(spec))):
        wanted = demands(read_pod(given))
        assert isinstance(wanted, NeedsKubeScheduler)
        assert wanted.why == (f"more than {MOST} {what}",)


@pytest.mark.parametrize("case", ["tolerations", "labels", "terms", "expressions", "values"])
def test_nothing_is_kept_of_what_is_too_large(case: str) -> None:
    view = read_pod(pod(LARGE[case][1]))
    assert (view.tolerations, view.node_selector, view.required_terms) == ((), {}, None)


def test_a_thousand_nodes_by_name_are_nothing_unusual() -> None:
    names = tuple(f"node-{number}" for number in range(1000))
    view = read_pod(pod(affinity([term(*names)])))
    assert view.required_terms == (NodeTerm((Requirement("zone", "In", names),)),)
    assert view.beyond == ()


def test_a_hundred_tolerations_are_read() -> None:
    view = read_pod(pod({"tolerations": [{"key": f"key-{number}"} for number in range(MOST)]}))
    assert (len(view.tolerations), view.beyond) == (MOST, ())


def test_very_many_terms_of_anti_affinity_count_as_one_that_may_be_about_any_pod() -> None:
    one = {"labelSelector": {"matchLabels": {"app": "other"}}, "topologyKey": "zone"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [one] * HUGE}
    view = read_pod(pod({"affinity": {"podAntiAffinity": required}}))
    assert len(view.anti_affinity) == 1
    assert repels(view, a_pod("innocent"))


def anti_affinity(*terms: Json) -> Json:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


MANY_NAMES = [f"namespace-{number}" for number in range(HUGE)]
ONE_LABEL = {"matchLabels": {"app": "other"}}


@pytest.mark.parametrize(
    "terms",
    [
        [{"labelSelector": ONE_LABEL, "namespaces": MANY_NAMES}],
        [{"labelSelector": {"matchLabels": dict.fromkeys(MANY_NAMES, "")}}],
        [{"labelSelector": ONE_LABEL, "namespaces": MANY_NAMES[:MOST]}] * 2,
    ],
    ids=["namespaces", "labels", "namespaces of several terms"],
)
def test_a_large_term_of_anti_affinity_counts_as_one_that_may_be_about_any_pod(terms: list[Json]) -> None:
    view = read_pod(pod(anti_affinity(*terms)))
    assert view.anti_affinity == (AntiAffinity(everywhere=True),)
    assert repels(view, a_pod("innocent"))


def test_very_many_expressions_of_anti_affinity_are_not_kept() -> None:
    selector = ONE_LABEL | {"matchExpressions": expression(*MANY_NAMES) * MOST}
    view = read_pod(pod(anti_affinity({"labelSelector": selector})))
    assert view.anti_affinity == (AntiAffinity((("app", "other"),)),)


def test_a_term_of_anti_affinity_with_tens_of_namespaces_is_read() -> None:
    names = tuple(MANY_NAMES[: MOST // 2])
    view = read_pod(pod(anti_affinity({"labelSelector": ONE_LABEL, "namespaces": names})))
    assert view.anti_affinity == (AntiAffinity((("app", "other"),), names),)


def test_of_the_name_of_a_scheduler_no_more_is_kept_than_shows_that_it_is_another() -> None:
    assert len(read_pod(pod({"schedulerName": "s" * 1_000_000})).scheduler_name) == MOST_NAME


def test_of_very_many_gates_and_ports_the_first_are_read() -> None:
    ports = [{"hostPort": number} for number in range(1, HUGE)]
    gates = [{"name": f"example.com/{number}"} for number in range(HUGE)]
    view = read_pod(pod({"schedulingGates": gates, "containers": [{"name": "c", "ports": ports}]}))
    assert len(view.gates) == MOST + 1
    assert len(view.containers[0].host_ports) == MOST + 1
