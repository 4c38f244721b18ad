"""Print `docs/reference/http-api.md` from the routes of `extender/http`.

Run from the top of the repository: `python -m docs.generate.http_api > docs/reference/http-api.md`
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

from extender.config.load import parse
from extender.domain.ports import Clock
from extender.http.app import Services, endpoints
from extender.http.openapi import LISTENER, described
from extender.http.service import CurrentServices
from extender.observability.metrics.registry import Metrics

_CONFIG = """\
apiVersion: slurm-extender.io/v1alpha1
kind: ExtenderConfiguration
slurm: {token: unused}
http: {bind: '127.0.0.1:8080'}
hooks: {bind: '127.0.0.1:8084'}
admission: {bind: '127.0.0.1:8085'}
observability: {healthBind: '127.0.0.1:8081', metricsBind: '127.0.0.1:8082', debugBind: '127.0.0.1:8083'}
"""

_HEAD = """\
# HTTP API

<!-- Printed by `python -m docs.generate.http_api` from `extender/http`. -->

After reading this page you know every route of the extender, and which listener serves it. A running extender shows the
same as OpenAPI: `GET /debug/openapi.json` on the debug port.

* `http.bind` is for kube-scheduler, in the protocol of its extenders (`k8s.io/kube-scheduler/extender/v1`): the answer
  is always 200, and `Error` says what went wrong.
* `hooks.bind` is for scripts on Slurm's nodes. `Authorization: Bearer TOKEN` carries the site key, or the token of one
  job.
* `admission.bind` is for the API server (`admission.k8s.io/v1`).
* The `observability` listeners have no authentication. `debugBind` is on the loopback interface by default; then every
  request must name it as its host (`localhost`, `127.0.0.1`, `[::1]`). Requests that pages of other sites send are
  refused with 403.

Other answers than 200 have a JSON object with `error`. Routes under `/debug` may grow fields; `kubectl slurm` has the
stable form of them (docs/kubectl-slurm.md).
"""

NONE = "-"
_TABLE = "| request | parameters | body | does |\n|---|---|---|---|\n"

_TITLES = {
    "http.bind": "kube-scheduler",
    "admission.bind": "Admission",
    "hooks.bind": "Hooks",
    "observability.healthBind": "Health",
    "observability.metricsBind": "Metrics",
    "observability.debugBind": "Debugging",
}


class _NoClock:
    def now(self) -> float:
        """Return no time: nothing is served."""
        return 0.0

    def wall(self) -> float:
        """Return no time."""
        return 0.0


def document() -> dict[str, Any]:
    """Return the OpenAPI document of a process that has every listener."""
    clock: Clock = _NoClock()
    services = Services(cast("CurrentServices", _NoServices()), Metrics(clock), clock, ready=lambda: True)
    faces = [(one.names[0], one.app) for one in endpoints(parse(_CONFIG, "docs"), services)]
    return described((name, app.router) for name, app in faces)


class _NoServices:
    def __getattr__(self, _name: str) -> object:
        return None


def render() -> str:
    """The whole page, with a newline at its end."""
    found = document()
    parts = [_HEAD]
    for listener, title in _TITLES.items():
        rows = [
            (method, path, one)
            for path, operations in found["paths"].items()
            for method, one in operations.items()
            if one[LISTENER] == listener
        ]
        parts.append(
            f"\n## {title}\n\nListener: `{listener}`.\n\n| request | parameters | body | does |\n|---|---|---|---|\n"
        )
        parts += [
            f"| `{method.upper()} {path}` | {_parameters(one)} | {_body(one)} | {_text(one)} |\n"
            for method, path, one in rows
        ]
    parts.append("\n## Bodies\n\nEach table is one JSON object; `required` fields must be given.\n")
    parts += [line for name, schema in _bodies(found) for line in _object(name, schema)]
    return "".join(parts)


def _parameters(operation: Mapping[str, Any]) -> str:
    shown = [
        f"`{one['name']}`{' (required)' if one['required'] and one['in'] != 'path' else ''}"
        for one in operation.get("parameters", ())
        if one["in"] != "header"
    ]
    return ", ".join(shown) or NONE


def _body(operation: Mapping[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    name = content.get("$ref", "").rpartition("/")[2]
    return f"[{name}](#{name.lower()})" if name else NONE


def _text(operation: Mapping[str, Any]) -> str:
    """Return the first paragraph of the description."""
    return " ".join(operation.get("description", "").partition("\n\n")[0].split())


def _bodies(found: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of requests and answers, and those within them."""
    schemas = found["components"]["schemas"]
    waiting, known = sorted(_named(found["paths"])), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name not in known and name in schemas:
            known.add(name)
            waiting += sorted(_named(schemas[name]))
    for name in sorted(known):
        if schemas[name].get("properties") and "ValidationError" not in name:
            yield name, schemas[name]


def _named(value: object) -> Iterator[str]:
    """Yield the name of every schema that is referred to."""
    if isinstance(value, Mapping):
        if isinstance(reference := value.get("$ref"), str):
            yield reference.rpartition("/")[2]
        for one in value.values():
            yield from _named(one)
    elif isinstance(value, list):
        for one in value:
            yield from _named(one)


def _object(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"\n### {name}\n\n| field | type | |\n|---|---|---|\n"
    required = schema.get("required", ())
    for field, one in schema["properties"].items():
        yield f"| `{field}` | {_type(one)} | {'required' if field in required else ''} |\n"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema["title"]) if kind == "object" and str(schema.get("title", "")).startswith("v1.") else kind


if __name__ == "__main__":
    sys.stdout.write(render())
