"""One listener with every route that the extender has."""

from __future__ import annotations

import re
from dataclasses import replace

from extender.config.load import parse
from extender.config.values import BindAddress
from extender.http.app import Endpoint, Services, endpoints
from extender.observability.metrics.registry import Metrics
from tests.builders.services import FakeServices, StillClock

_CONFIGURATION = """\
apiVersion: slurm-extender.io/v1alpha1
kind: ExtenderConfiguration
slurm: {token: hush}
http: {bind: '127.0.0.1:9', maxRequestBytes: 65536}
hooks: {bind: '127.0.0.1:9', wait: 1s}
admission: {bind: '127.0.0.1:9'}
observability: {healthBind: '127.0.0.1:9', metricsBind: '127.0.0.1:9', debugBind: '127.0.0.1:9'}
"""
"""Faces with the same address share a listener."""

VALUES = {"uid": "u1", "job_id": "7", "slurm_node": "n1"}
"""What stands in the place of a parameter."""

QUERIES = {
    "/hooks/jobs/7/teardown": "?wait=0",
    "/hooks/nodes/n1/drain": "?reason=x",
    "/hooks/nodes/n1/clear": "?jobs=1,2",
    "/hooks/nodes/n1/lock": "?job=7",
    "/hooks/nodes/n1/unlock": "?job=7",
    "/debug/shares": "?account=a",
    "/debug/gangs": "?namespace=a",
    "/debug/console/state": "?search=a",
}


def every_route(bind: BindAddress) -> Endpoint:
    """Return an endpoint with scheduling, admission, hooks, probes, metrics, `/debug` and the console, over fakes."""
    clock = StillClock()
    services = Services(FakeServices(), Metrics(clock), clock)
    (found,) = endpoints(parse(_CONFIGURATION, "listener.yaml"), services)
    return replace(found, bind=bind)


def requests_of(endpoint: Endpoint) -> list[tuple[str, str]]:
    """Return method and address of every route, with a value for each parameter."""
    paths = endpoint.app.openapi()["paths"]
    return [(method.upper(), _filled(path)) for path, methods in paths.items() for method in methods]


def _filled(path: str) -> str:
    filled = re.sub(r"{(\w+)}", lambda found: VALUES[found[1]], path)
    return filled + QUERIES.get(filled, "")
