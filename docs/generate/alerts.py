"""Print `docs/alerts.md` from the alerts of `manifests/components/alerts`.

Run from the top of the repository: `python -m docs.generate.alerts > docs/alerts.md`
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

RULES = Path(__file__).parents[2] / "manifests/components/alerts/rules.yaml"

_HEAD = """\
# Alerts

<!-- Printed by `python -m docs.generate.alerts` from `manifests/components/alerts/rules.yaml`. -->

After reading this page you can find the runbook of an alert. Install the alerts with `components/alerts`, or with
the chart by `--set alerts=true`; they need the Prometheus operator. Each runbook states the meaning, the effect on
users, and the steps to take. [Failures](operations.md#failures) lists the same problems by cause,
[Metrics](reference/metrics.md) the metrics.

By default the alerts have no `runbook_url`. To link them to their runbooks, serve the pages that `make site` builds
and set their address: in the file `site.yaml` of `components/runbook-links`, or with `--set site=https://…` of the
chart. Each alert then has `runbook_url: https://…/docs/runbooks/ALERT.html`.

| alert | severity | after | summary |
|---|---|---|---|
"""


def render() -> str:
    """The whole page, with a newline at its end."""
    rows = []
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["spec"]["groups"]:
        for rule in group["rules"]:
            said = rule["annotations"]
            after = rule.get("for", "at once")
            page = f"[{rule['alert']}](runbooks/{rule['alert']}.md)"
            rows.append(f"| {page} | {rule['labels']['severity']} | {after} | {said['summary']} |\n")
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(render())
