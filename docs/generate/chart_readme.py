"""Print `manifests/chart/README.md`: every value of the chart, its default and its meaning, from the schema.

Run from the top of the repository: `python -m docs.generate.chart_readme > manifests/chart/README.md`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from docs.generate.values_schema import OWN

VALUES = Path("manifests/chart/values.yaml")

_HEAD = """\
# The chart slurm-extender

<!-- Printed by `python -m docs.generate.chart_readme` from docs/generate/values_schema.py and values.yaml. -->

It installs the extender and the kube-scheduler that asks it, with scheduling gates and mutual TLS:

```sh
kubectl create namespace slurm-extender
kubectl -n slurm-extender create secret generic slurm-extender \\
  --from-literal=token="$(scontrol token username=slurm lifespan=86400)"
helm install slurm-extender manifests/chart --namespace slurm-extender \\
  --set image.repository=REGISTRY/slurm-extender \\
  --set 'config.slurm.addresses={http://slurmrestd.slurm.svc:6820}'
helm test slurm-extender --namespace slurm-extender
```

`helm test` runs `slurm-extender doctor` with the configuration and the rights of the extender. `helm` refuses a value
that `values.schema.json` does not know, by the name of its key.

Several Slurm clusters: one release for each, in a namespace of its own, with a `config.scheduler.name` of its own.
Objects outside of the namespace carry its name (`slurm-extender-gate-NAMESPACE`), but for the namespace
`slurm-extender`.

A namespace is put on Slurm by the label `slurm-extender.io/scheduler-name: NAME`, NAME being `config.scheduler.name`
([docs/administration.md](../../docs/administration.md)).

With `config.scope.namespaces` the extender writes Pods, and reads their owners, by Roles in these namespaces. Its
ClusterRole keeps reading of Pods, Nodes, DeviceClasses and labels of Namespaces, and patches of Nodes. kube-scheduler
keeps Kubernetes' own ClusterRoles.

## Values

| value | default | meaning |
|---|---|---|
"""

_TAIL = """\
| `config` | in values.yaml | Configuration without its head ([keys](../../docs/reference/configuration.md)). |
| `podPolicy` | `null` | A policy for Pods without its head ([guide](../../docs/policy.md)). |
"""


def render() -> str:
    """The whole page, with a newline at its end."""
    values: Mapping[str, Any] = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    return _HEAD + "".join(_rows(OWN, values, "")) + _TAIL


def _rows(schemas: Mapping[str, Any], values: Mapping[str, Any], above: str) -> Iterator[str]:
    for name in sorted(schemas):
        schema, value = schemas[name], values.get(name)
        inner = schema.get("properties")
        if inner and schema.get("additionalProperties") is False and name not in {"affinity", "resources"}:
            yield from _rows(inner, value or {}, f"{above}{name}.")
            continue
        words = f" One of {', '.join(f'`{word}`' for word in schema['enum'])}." if "enum" in schema else ""
        meaning = schema["description"].replace("|", "\\|") + words
        yield f"| `{above}{name}` | `{json.dumps(value)}` | {meaning} |\n"


if __name__ == "__main__":
    sys.stdout.write(render())
