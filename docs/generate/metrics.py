"""Print `docs/reference/metrics.md` from the registry in `extender.observability.metrics` and from `scraped` beside it.

Run from the top of the repository: `python -m docs.generate.metrics > docs/reference/metrics.md`
"""

from __future__ import annotations

import sys

from extender.observability.metrics.described import PREFIX, Described
from extender.observability.metrics.registry import Metrics
from extender.observability.process_metrics import CERTIFICATES, DRY_RUN_PODS, DRY_RUN_TRANSLATIONS, PENDING_PODS, TABLE

_HEAD = """\
# Metrics

<!-- Printed by `python -m docs.generate.metrics` from `extender/observability`. -->

After reading this page you can look up a metric for a dashboard or an alert. Every replica serves `/metrics` on
`observability.metricsBind`, in Prometheus' text format, together with `process_*` and `python_gc_*` of the
Prometheus client. One text serves all requests for a second. Durations are in seconds. No label holds the name of a
Pod, a job or a node: `/debug/placeholders` and the log show single objects.

Only the leader (`slurm_extender_leader` is 1) counts placeholders, polls and requests: sum over replicas. A restart
begins at 0, and does not time placeholders whose job existed before.

[Alerts](../alerts.md) and the dashboard (`manifests/components/dashboard`) use these metrics.

![First row of the dashboard](../pictures/dashboard.svg)

*The first row of the dashboard, drawn from the answers of a Prometheus beside the lab, while Pods come and go. Grafana
draws the same queries in its own look.*

| metric | type | labels | meaning |
|---|---|---|---|
"""


class _NoClock:
    """Nothing is timed here."""

    def now(self) -> float:
        """No time passes."""
        return 0.0

    def wall(self) -> float:
        """No time passes."""
        return 0.0


def described() -> tuple[Described, ...]:
    """Every metric that a process shows."""
    return (*Metrics(_NoClock()).described, CERTIFICATES, DRY_RUN_TRANSLATIONS, DRY_RUN_PODS, PENDING_PODS, *TABLE)


def render() -> str:
    """The whole page, with a newline at its end."""
    text = _HEAD
    for one in sorted(described(), key=lambda one: one.name):
        labels = ", ".join(f"`{label}`" for label in one.labels)
        said = one.text.replace("|", "\\|")
        text += f"| `{PREFIX}_{one.name}` | {one.sort} | {labels} | {said} |\n"
    return text


if __name__ == "__main__":
    sys.stdout.write(render())
