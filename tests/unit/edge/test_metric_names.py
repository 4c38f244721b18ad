"""Names, labels and texts of metrics follow Prometheus' guide, and each text can be read alone."""

from __future__ import annotations

import re

import pytest

from docs.generate.metrics import described
from extender.observability.metrics.described import Described, Sort

ALL = described()
NEIGHBOUR = re.compile(r"^(Of|Those|These|Such|The same|Also|And)\b|\b(of those|such|the same|these)\b")
"""Words with which a text leans on another one: Prometheus and Grafana show each alone."""


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_a_text_is_a_sentence_that_needs_no_other(metric: Described) -> None:
    assert metric.text.endswith(".")
    assert metric.text[0].isupper() or metric.text[0].isdigit() or metric.text.startswith("/")
    assert not NEIGHBOUR.search(metric.text)


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_a_name_says_what_is_measured_and_in_which_unit(metric: Described) -> None:
    name = metric.name
    assert (metric.sort is Sort.COUNTER) == name.endswith("_total")
    assert (metric.sort is Sort.HISTOGRAM) == name.endswith("_duration_seconds")
    assert not re.search(r"(age|silence)_seconds|_mb\b|_ms\b", name)
    assert not name.endswith("_seconds") or name.endswith(("_duration_seconds", "_timestamp_seconds"))


def test_a_label_says_what_its_values_are() -> None:
    labels = {label for metric in ALL for label in metric.labels}
    assert not labels & {"kind", "verdict", "outcome", "cause", "before", "after"}
