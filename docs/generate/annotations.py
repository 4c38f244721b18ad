"""Print `docs/reference/annotations.md` from the table of `extender.domain.translation.annotation_table`.

Run from the top of the repository: `python -m docs.generate.annotations > docs/reference/annotations.md`
"""

from __future__ import annotations

import sys
from typing import Any

from extender.domain.policy.site import RESTRICTED_KEYS
from extender.domain.translation.annotation_table import SETTINGS, Setting
from extender.domain.wellknown import (
    BRIDGE_PREFIX,
    JOB_ID_LABEL,
    OPT_IN_LABEL,
    OPT_OUT,
    OWN_PREFIX,
    STATUS_PREFIX,
    SUNK_PREFIX,
)

_HEAD = f"""\
# Annotations of a Pod

<!-- Printed by `python -m docs.generate.annotations` from `extender/domain/translation/annotation_table.py`. -->

After reading this page you know every annotation that changes the Slurm job of a Pod, its values, and the
effect of a later change. All annotations are optional. Without an annotation, the default of the site
applies, otherwise that of Slurm.

```yaml
metadata:
  annotations:
    {OWN_PREFIX}partition: gpu
    {OWN_PREFIX}time-limit: "90"
```

The extender accepts three prefixes, so that manifests for SUNK and slurm-bridge work unchanged:

| prefix | on |
|---|---|
| `{OWN_PREFIX}` | the Pod |
| `{SUNK_PREFIX}` | the Pod |
| `{BRIDGE_PREFIX}` | the Pod or its topmost owner (Deployment, Job, LeaderWorkerSet …); the Pod takes precedence |

[Migration](../migrate.md) describes the differences. The site configures two habits of these products:
slurm-bridge gives a Pod without `exclusive` a whole node (default `exclusive: none`), and SUNK runs jobs as
user and group 0.

## Validation

* A setting under two prefixes must have one meaning, as `true` and `none` of `exclusive` have. Otherwise
  the extender rejects the Pod.
* An empty value counts as unset.
* The extender rejects a Pod with an unknown key under `{OWN_PREFIX}`, and suggests the nearest key. An
  unknown key under another prefix has no effect; an Event names it.
* The extender checks the form of values. Slurm checks whether a partition or an account exists; an Event
  shows its message.
* One Event lists all errors of a Pod. The extender retries when the Pod or the configuration changes.
* The members of a gang must agree in all settings of their job.

## Changes

* *Waiting Pod, in place*: the job follows a change of `account`, `partition`, `qos`, `wckey`, `comment`,
  `constraints`, `prefer`, `licenses`, `dependency`, `time-limit`, `nice` and `excluded-nodes`. It keeps its
  age in the queue. So does the job of a gang if `gang-size` changes on all Pods.
* *Waiting Pod, new job*: any other change ends the waiting job and submits another one. So does the removal
  of `account`, `partition`, `qos`, `wckey` or `time-limit`.
* *Rejected by Slurm*: the job stays as it is, and an Event shows Slurm's message.
* *Running Pod*: the job follows a change of `comment`, and a shorter `time-limit`. Only an operator of
  Slurm can extend the time limit (`scontrol update TimeLimit`); the extender follows that change. Other
  changes have no effect; an Event names them.

## Settings

A key marked with * needs a permission of the site, unless its value is the default of the Pod. A `nice`
below 0 needs the permission for `priority`. The [policy](../policy.md) can bound other settings by namespace,
label or ServiceAccount.
"""

_TAIL = f"""
## Fields of the Pod

| field of the Pod | in the job |
|---|---|
| effective requests of `cpu` | CPUs, rounded up to whole ones; by default none or 0 is rejected |
| effective requests of `memory` | memory, rounded up to MiB; none or 0 as with `cpu` |
| extended resources | GRES and licences, by the map of the site; resources without a line are not counted |
| node selector or required node affinity on a GPU label of the site | type of the GPUs, if exactly one type results |
| `activeDeadlineSeconds` | time limit: with grace period and a minute for the start; not with `time-limit` |
| `activeDeadlineSeconds` of its Job | the same without additions, rounded up to minutes; the shorter of both applies |
| `priorityClassName` | priority, nice or QOS, by the [policy](policy.md#priorityclasses) |
| namespace and ServiceAccount | user and account, if the [policy](policy.md#owners) names their owner |
| `namespace/name` | readable part of the job's name, without `job-name` |

kube-scheduler and the kubelet compute effective requests in the same way. [Resources](../resources.md)
describes them, and resources that Slurm does not know.

Node selector and affinity can allow several GPU types, and `jobs.gpuTypes` may not name the value of a
label. The job then requests GPUs without a type. The labels still restrict the nodes. An Event names an
unknown value, unless the map is empty.

## Other keys

The extender writes annotations under `{STATUS_PREFIX}` and the label `{JOB_ID_LABEL}`.
They are not settings: [labels, annotations, taints and conditions](object-metadata.md) lists them. On a copy of a Pod
they have no effect.

`{OPT_OUT}: "true"` keeps a Pod with its own scheduler in a Namespace with the
label `{OPT_IN_LABEL}`.

Each error or notice about annotations is an Event; [Events](events.md) lists the actions.
"""


def render() -> str:
    """The whole page, with a newline at its end."""
    rows = ["", "| key | SUNK | slurm-bridge | value | meaning |", "|---|---|---|---|---|", *map(_row, SETTINGS)]
    return _HEAD + "\n".join(rows) + "\n" + _TAIL


def _row(setting: Setting[Any]) -> str:
    star = " *" if setting.name in RESTRICTED_KEYS else ""
    names = (_code(setting.name) + star, _code(setting.sunk), _code(setting.bridge))
    # A bar ends a cell, and an angle bracket opens HTML.
    allowed = setting.form.allowed.replace("|", "\\|").replace("<", "&lt;")
    return f"| {' | '.join(names)} | {allowed} | {setting.meaning} |"


def _code(word: str) -> str:
    return f"`{word}`" if word else "-"


if __name__ == "__main__":
    sys.stdout.write(render())
