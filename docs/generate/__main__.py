"""Write every generated page again: `python -m docs.generate`, from the top of the repository."""

from __future__ import annotations

from pathlib import Path

from docs.generate import gang_manifests, layers, pod_ends, schemas, slurm_states, state_diagram
from docs.generate.alerts import render as alerts_page
from docs.generate.annotations import render as annotations_page
from docs.generate.chart_readme import render as chart_readme
from docs.generate.cli import render as cli_page
from docs.generate.configuration import render as configuration_page
from docs.generate.http_api import render as http_api_page
from docs.generate.metrics import render as metrics_page
from docs.generate.object_metadata import render as object_metadata_page
from docs.generate.performance import write as write_performance
from docs.generate.policy import reference as policy_keys
from docs.generate.policy import render as policy_page
from docs.generate.values_schema import render as values_schema
from docs.generate.versions import render as versions_page
from docs.generate.why import render as why_page

PAGES = {
    Path("docs/alerts.md"): alerts_page,
    Path("docs/reference/annotations.md"): annotations_page,
    Path("docs/reference/cli.md"): cli_page,
    Path("docs/reference/configuration.md"): configuration_page,
    Path("docs/reference/configuration.schema.json"): schemas.configuration,
    Path("docs/reference/http-api.md"): http_api_page,
    Path("docs/reference/metrics.md"): metrics_page,
    Path("docs/reference/object-metadata.md"): object_metadata_page,
    Path("docs/policy.md"): policy_page,
    Path("docs/reference/policy.md"): policy_keys,
    Path("docs/reference/policy.schema.json"): schemas.policy,
    Path("docs/reference/versions.md"): versions_page,
    Path("docs/reference/why.md"): why_page,
    Path("manifests/chart/README.md"): chart_readme,
    Path("manifests/chart/values.schema.json"): values_schema,
}

if __name__ == "__main__":
    for page, render in PAGES.items():
        page.write_text(render(), encoding="utf-8")
    for part in (slurm_states, pod_ends, state_diagram, layers, gang_manifests):
        part.draw()
    write_performance()
