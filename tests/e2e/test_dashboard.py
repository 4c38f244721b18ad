"""Every query of the dashboard and of the alerts is answered by a real Prometheus that scrapes a running extender."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab.build_slurm import RELEASES
from lab.clock import elapsed
from lab.pods import FAIL_AFTER, RUN_FOR
from lab.prometheus import Prometheus, prometheus
from lab.site import Site
from lab.topology import small
from tests.builders.dashboard_picture import Line, Panel, svg
from tests.builders.kustomize import COMPONENTS, documents

pytestmark = [pytest.mark.lab, pytest.mark.slow]

DASHBOARD = json.loads((COMPONENTS / "dashboard" / "dashboard.json").read_text(encoding="utf-8"))
[RULES] = documents(COMPONENTS / "alerts" / "rules.yaml")
LABELS = {"namespace": "slurm-extender", "pod": "slurm-extender-0"}
"""What the PodMonitor puts on every series."""

VARIABLES = {"$__rate_interval": "15s", "$namespace": ".*", "$job": ".*"}
"""What Grafana puts in for its variables, where everything is chosen."""

EMPTY = {
    "Pending and allocated GPUs",
    "Orphaned and duplicate jobs",
    "Certificate expiry",
    "Allocations lost",
    "Drift",
    "Slurm failures per second",
    "Watches and relists",
    "Drained, unavailable and native-job nodes",
    "Foreign Pods",
    "Hook requests per second",
    "HTTP rejections per second",
    "Barriers of gangs",
    "Wait of gangs",
    "Bound Pods that have not started",
    "Gangs by state",
}
"""Panels that may show nothing here: no gang, no GPU, no certificate, and nothing went wrong."""

PICTURE = os.environ.get("DASHBOARD_PICTURE", "")
"""A file: the first row is drawn there, after some minutes of Pods that come and go."""

UNITS = {"short": "", "s": " s", "ops": "/s"}
CONFIG = {"slurm": {"killWait": "10s", "defaultPartition": "batch"}}
LATEST = list(RELEASES)[-1]


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus beside a site where Pods wait, run, end and fail."""
    workdir = tmp_path_factory.mktemp("scraped")
    with (
        Site(LATEST, topology=small(LATEST), config=CONFIG, workdir=workdir) as site,
        prometheus(
            workdir / "prometheus", site.addresses.metrics, yaml.safe_dump({"groups": RULES["spec"]["groups"]}), LABELS
        ) as found,
    ):
        namespace = site.namespace("scraped")
        ends = [site.pod(f"ends-{n}", namespace, annotations={RUN_FOR: "2s"}) for n in range(4)]
        fails = site.pod("fails", namespace, annotations={FAIL_AFTER: "2s"})
        for pod in (*ends, fails):
            site.bound(pod)
        for number in range(4):  # a machine each; the last one waits
            site.pod(f"fills-{number}", namespace, cpus=64)
        if PICTURE:
            flowing(site, namespace)
        began = elapsed()
        site.wait_for(lambda: elapsed() - began > 25, "rates have some seconds of history", every_s=1)
        yield found


def flowing(site: Site, namespace: str) -> None:
    """Pods come in waves for two minutes and run some seconds each."""
    for wave in range(8):
        for number in range(2 + wave % 4 * 3):
            site.pod(f"flows-{wave}-{number}", namespace, cpus=16, annotations={RUN_FOR: f"{4 + number}s"})
        if wave == 2:
            for pod in (one for one in site.pods(namespace) if one["metadata"]["name"].startswith("fills-")):
                site.kube.api("DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}")
        began = elapsed()
        site.wait_for(lambda began=began: elapsed() - began > 15, "the wave flows", every_s=1)  # type: ignore[misc]
    for number in range(4):
        site.pod(f"fills-again-{number}", namespace, cpus=64)


def queries() -> Iterator[tuple[str, str]]:
    """Each panel with its queries, as Grafana sends them."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], filled_in(target["expr"])


def filled_in(expression: str) -> str:
    """The query as Grafana sends it."""
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression
    return expression


def test_every_query_of_the_dashboard_is_answered_and_most_of_them_with_data(scraped: Prometheus) -> None:
    answers: dict[str, int] = {}
    for title, text in queries():
        answers[title] = answers.get(title, 0) + len(scraped.query(text))
    assert len(answers) > 40
    assert {title for title, count in answers.items() if not count} <= EMPTY


def test_the_first_row_shows_data(scraped: Prometheus) -> None:
    first = {panel["title"] for panel in DASHBOARD["panels"] if panel["gridPos"]["y"] == 1}
    shown = {title for title, text in queries() if title in first and scraped.query(text)}
    assert shown >= {"Pending Pods by reason", "Wait until bound (p50, p95)", "Pods placed/ended per second"}


@pytest.mark.skipif(not PICTURE, reason="draws where DASHBOARD_PICTURE says")
def test_the_first_row_is_drawn_from_the_answers(scraped: Prometheus) -> None:
    ended, seconds = time.time(), 120.0  # noqa: TID251 - Prometheus compares with its own clock
    panels = []
    for panel in (one for one in DASHBOARD["panels"] if one["gridPos"]["y"] == 1):
        lines = []
        for target in panel["targets"]:
            for series in scraped.query_range(filled_in(target["expr"]), ended - seconds, ended, 2):
                [legend] = [*series["metric"].values()][:1] or [target["legendFormat"]]
                points = [(at - ended + seconds, float(value)) for at, value in series["values"] if value != "NaN"]
                lines.append(Line(legend, points))
        panels.append(Panel(panel["title"], UNITS[panel["fieldConfig"]["defaults"]["unit"]], lines))
    assert sum(len(panel.lines) for panel in panels) >= 5
    Path(PICTURE).write_text(svg(panels, seconds), encoding="utf-8")


def test_every_alert_is_evaluated_and_none_fires_on_a_site_in_order(scraped: Prometheus) -> None:
    rules = scraped.rules()
    wanted = {rule["alert"] for group in RULES["spec"]["groups"] for rule in group["rules"]}
    assert {rule["name"] for rule in rules} == wanted
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
    for rule in rules:
        scraped.query(rule["query"])
