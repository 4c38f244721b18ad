"""The page on metrics lists what a process shows."""

from __future__ import annotations

from pathlib import Path

from docs.generate.metrics import described, render

PAGE = Path(__file__).parents[3] / "docs/reference/metrics.md"


def test_the_page_is_what_the_generator_prints() -> None:
    stale = "docs/reference/metrics.md is stale: python -m docs.generate.metrics > docs/reference/metrics.md"
    assert PAGE.read_text(encoding="utf-8") == render(), stale


def test_no_metric_is_there_twice() -> None:
    names = [one.name for one in described()]
    assert len(set(names)) == len(names)


def test_no_label_could_hold_a_pod_a_job_or_a_node() -> None:
    labels = {label for one in described() for label in one.labels}
    assert labels <= {
        "code", "endpoint", "from", "gres", "hook", "listener", "method", "object", "operation", "phase", "reason",
        "request", "resource", "result", "side", "state", "target", "to", "type", "version",
    }  # fmt: skip
