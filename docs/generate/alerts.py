"""Print `docs/alerts.md` from the alerts of `manifests/components/alerts`.

Run from the top of the repository: `python -m docs.generate.alerts > docs/alerts.md`
"""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath

import yaml

RULES = Path(__file__).parents[2] / "manifests/components/alerts/rules.yaml"

_HEAD = """\
# Alerts

<!-- Printed by `python -m docs.generate.alerts` from `manifests/components/alerts/rules.yaml`. -->

They come with `components/alerts`, for the Prometheus operator (`--set alerts=true` with the chart). Each has a page
that says what it means, what users see, and what to do. [Failures](failures.md) says it from the other side: what
breaks, and what is seen then. `runbook_url` of an alert is the path of its page on the site of these pages (`make
site`): `components/runbook-links`, or `--set site=https://…` with the chart, puts the address of yours before it.

| alert | severity | after | says |
|---|---|---|---|
"""


def render() -> str:
    """The whole page, with a newline at its end."""
    rows = []
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["spec"]["groups"]:
        for rule in group["rules"]:
            said = rule["annotations"]
            page = PurePosixPath(said["runbook_url"]).relative_to("docs").with_suffix(".md")
            after = rule.get("for", "at once")
            rows.append(f"| [{rule['alert']}]({page}) | {rule['labels']['severity']} | {after} | {said['summary']} |\n")
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(render())
