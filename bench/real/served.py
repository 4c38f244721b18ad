"""Requests that the API server served by flow schema, and those that the extender sent, by their own metrics."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.probe import request
from lab.site import Site

Json = dict[str, Any]

_LINE = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')

_FLOW = "apiserver_flowcontrol_"
_FLOW_TOTALS = {
    f"{_FLOW}dispatched_requests_total": "requests",
    f"{_FLOW}rejected_requests_total": "throttled",
    f"{_FLOW}request_wait_duration_seconds_sum": "waited_s",
    f"{_FLOW}request_execution_seconds_sum": "executed_s",
}
_KUBE = "slurm_extender_kube_request_duration_seconds"
_SLURM = "slurm_extender_slurm_request_duration_seconds"


@dataclass(frozen=True, slots=True)
class Served:
    """Totals since each process began."""

    flows: dict[tuple[str, str, str], float]
    """By flow schema, priority level and what is counted."""

    sent: dict[tuple[str, str], float]
    """By request of the extender (to both sides), and `count` or `seconds`."""

    def since(self, before: Served) -> Json:
        """The differences: of each flow schema, and of each request of the extender, that there were."""
        flows: dict[str, Json] = {}
        for (schema, level, what), total in sorted(self.flows.items()):
            told = flows.setdefault(schema, {"level": level})
            told[what] = total - before.flows.get((schema, level, what), 0.0)
        sent: dict[str, Json] = {}
        for (name, what), total in sorted(self.sent.items()):
            sent.setdefault(name, {})[what] = total - before.sent.get((name, what), 0.0)
        return {
            "flow_schemas": {name: told for name, told in flows.items() if told.get("requests") or told["throttled"]},
            "extender": {name: told for name, told in sent.items() if told["count"]},
        }


def served(site: Site) -> Served:
    """Now. Reads /metrics of both."""
    headers = {"Authorization": f"Bearer {site.kube.token()}"}
    _, flows = request("GET", f"{site.kube.url}/metrics", headers=headers, ca_file=site.kube.ca_file)
    _, sent = request("GET", f"http://127.0.0.1:{site.addresses.metrics}/metrics")
    return read(flows.decode(), sent.decode())


def read(flows: str, sent: str) -> Served:
    """Sum the lines of both texts."""
    found = Served(defaultdict(float), defaultdict(float))
    for name, labels, value in _totals(flows):
        if what := _FLOW_TOTALS.get(name):
            key = (labels["flow_schema"], labels["priority_level"])
            found.flows[*key, what] += value
            found.flows[*key, "throttled"] += 0
    for name, labels, value in _totals(sent):
        base, _, kind = name.rpartition("_")
        if kind not in {"count", "sum"} or base not in {_KUBE, _SLURM}:
            continue
        told = f"{labels['method']} {labels['endpoint']}" if base == _KUBE else f"Slurm {labels['request']}"
        found.sent[told, "seconds" if kind == "sum" else kind] += value
    return found


def _totals(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for name, labels, value in _LINE.findall(text):
        if name.startswith((_FLOW, _KUBE, _SLURM)):
            yield name, dict(_LABEL.findall(labels)), float(value)
