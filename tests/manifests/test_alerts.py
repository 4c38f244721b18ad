"""Alerts and dashboard ask for metrics, labels and values that there are, and each alert has its page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import pytest
import yaml

import slurmclient.errors
from docs.generate.metrics import described
from extender.controllers.gangs.barrier import BarrierOutcome
from extender.domain.placeholder import State
from extender.domain.pods.why import Cause
from extender.observability.metrics.described import PREFIX, Described, Sort
from extender.observability.metrics.lives import PlacementPhase
from tests.builders.kustomize import ROOT, Document, documents
from tests.builders.promql import Matcher, groupings, selectors

COMPONENTS = ROOT / "manifests" / "components"
[RULE] = documents(COMPONENTS / "alerts" / "rules.yaml")
ALERTS: list[Document] = [rule for group in RULE["spec"]["groups"] for rule in group["rules"]]
DASHBOARD: Document = json.loads((COMPONENTS / "dashboard" / "dashboard.json").read_text())
SCRAPED = {"job", "instance", "namespace", "pod"}
"""Labels that Prometheus itself puts on."""

METRICS = {series: one for one in described() for series in one.series}
PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
VALUES = {
    ("placeholders", "state"): [str(state) for state in State],
    ("placeholder_transitions_total", "from"): [str(state) for state in State],
    ("placeholder_transitions_total", "to"): [str(state) for state in State],
    ("bind_duration_seconds", "result"): ["ok", "refused"],
    ("placeholder_phase_duration_seconds", "phase"): [str(phase) for phase in PlacementPhase],
    ("slurm_request_duration_seconds", "result"): [
        "ok",
        *(name for name in dir(slurmclient.errors) if name.endswith("Error")),
    ],
    ("kube_request_duration_seconds", "code"): ["none", "403", "500", "503"],
    ("kube_events_total", "result"): ["sent", "dropped", "failed"],
    ("drift_total", "result"): ["found", "repaired"],
    ("duplicate_jobs_total", "result"): ["found", "ended"],
    ("foreign_pod_nodes", "state"): ["drained", "undrained"],
    ("starting_pods", "state"): ["in_time", "overdue"],
    ("gang_barriers_total", "result"): [str(outcome) for outcome in BarrierOutcome],
    ("pending_pods", "reason"): [str(cause) for cause in Cause],
}
"""What the labels can be that expressions are particular about."""


def scraped_labels(metric: Described) -> frozenset[str]:
    """Return the labels of a metric as Prometheus has them."""
    return frozenset(metric.labels) | ({"le"} if metric.sort is Sort.HISTOGRAM else frozenset())


def expressions() -> Iterator[tuple[str, str]]:
    """Yield each expression with the alert or panel that has it."""
    for alert in ALERTS:
        yield alert["alert"], alert["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


EXPRESSIONS = list(expressions())


@pytest.mark.parametrize(
    ("who", "expression"), EXPRESSIONS, ids=[f"{who} {at}" for at, (who, _) in enumerate(EXPRESSIONS)]
)
def test_every_metric_label_and_value_in_an_expression_is_shown_by_the_process(who: str, expression: str) -> None:
    found = selectors(expression)
    assert found, f"{who} asks for nothing of ours"
    known = set(SCRAPED)
    for selector in found:
        if selector.metric in PROCESS:
            continue
        assert selector.metric in METRICS, f"{who}: there is no metric {selector.metric}"
        one = METRICS[selector.metric]
        labels = scraped_labels(one)
        known |= labels
        for matcher in selector.matchers:
            if matcher.value in {"$namespace", "$job"}:
                continue
            assert matcher.label in labels, f"{who}: {selector.metric} has no label {matcher.label}"
            held(who, VALUES[one.name, matcher.label], matcher)
    assert groupings(expression) <= known, who


def held(who: str, values: Sequence[str], matcher: Matcher) -> None:
    wanted = matcher.value.split("|") if matcher.operator in {"=~", "!~"} else [re.escape(matcher.value)]
    for pattern in wanted:
        assert any(re.fullmatch(pattern, value) for value in values), f"{who}: nothing is ever {pattern}"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_what_it_is_and_has_a_page(alert: Document) -> None:
    said = alert["annotations"]
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert said["summary"].endswith(".")
    assert said["description"].strip().endswith(".")
    page = (ROOT / "docs" / "runbooks" / f"{alert['alert']}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {alert['alert']}\n\n{said['summary']}\n")
    headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert headings == ["Meaning", "What users see", "What to do"]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_has_no_link_where_the_address_of_the_pages_is_unknown(alert: Document) -> None:
    assert "runbook_url" not in alert["annotations"]


def test_the_component_with_the_links_gives_every_alert_that_of_its_own_page() -> None:
    patch = yaml.safe_load((COMPONENTS / "runbook-links" / "links.yaml").read_text(encoding="utf-8"))
    linked = {one["path"]: one["value"] for one in patch if one["op"] == "add"}
    assert linked == {
        f"/spec/groups/{group}/rules/{rule}/annotations/runbook_url": f"docs/runbooks/{alert['alert']}.html"
        for group, found in enumerate(RULE["spec"]["groups"])
        for rule, alert in enumerate(found["rules"])
    }


def test_every_page_belongs_to_an_alert() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "runbooks").glob("*.md")}
    assert pages == {alert["alert"] for alert in ALERTS}


def test_templates_of_alerts_name_labels_that_are_left() -> None:
    for alert in ALERTS:
        used = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["description"]))
        assert used <= groupings(alert["expr"]), alert["alert"]


def test_the_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_metric_of_the_extender_that_is_no_detail_is_on_a_panel_or_alert() -> None:
    shown = {METRICS[one.metric].name for _, text in EXPRESSIONS for one in selectors(text) if one.metric in METRICS}
    unseen = {one.name for one in described()} - shown
    assert unseen <= {
        "lease_transitions_total", "allocations_released_total", "external_node_operations_total", "external_nodes",
        "policy_loads_total", "kube_lists_total", "foreign_pods_unreserved_cpus",
        "foreign_pods_unreserved_memory_bytes", "foreign_pods_unreserved_gres", "native_jobs",
        "dry_run_translations_total", "dry_run_pods", "pod_condition_writes_total", "device_conflicts_total",
    }, f"{PREFIX}_ metrics that nobody looks at"  # fmt: skip


def test_the_first_row_shows_what_waits_how_long_and_what_is_placed_and_lost() -> None:
    row, *first = [panel["title"] for panel in DASHBOARD["panels"] if panel["gridPos"]["y"] <= 1]
    assert row == "Pods at a glance"
    assert first == [
        "Pending Pods by reason",
        "Wait until bound (p50, p95)",
        "Pods placed/ended per second",
        "Allocations lost",
    ]


def test_every_panel_is_described_and_shows_the_chosen_installation_alone() -> None:
    assert {one["name"] for one in DASHBOARD["templating"]["list"]} == {"datasource", "namespace", "job"}
    for panel in DASHBOARD["panels"]:
        if panel["type"] == "row":
            continue
        assert panel["description"].endswith("."), panel["title"]
        for target in panel["targets"]:
            for selector in re.findall(r"(?:slurm_extender|process)_\w+(\{[^}]*\})?", target["expr"]):
                assert 'namespace=~"$namespace",job=~"$job"' in selector, panel["title"]


def test_a_panel_names_a_runbook_that_there_is() -> None:
    named = [
        page for panel in DASHBOARD["panels"] for page in re.findall(r"docs/\S+\.md", panel.get("description", ""))
    ]
    assert len(named) > 5
    assert all((ROOT / page).is_file() for page in named)
