"""Print `docs/annotations.md` from the table of `extender.domain.translation.settings`.

Run from the top of the repository: `python -m docs.generate.annotations > docs/annotations.md`
"""

from __future__ import annotations

import sys
from typing import Any

from extender.domain.policy.site import RESTRICTED_KEYS
from extender.domain.translation.settings import SETTINGS, Setting
from extender.domain.wellknown import (
    ALLOCATION_PROOF,
    BRIDGE_PREFIX,
    CANCELLED,
    DEVICES,
    GANG_KEY,
    GANG_MEMBERS,
    GANG_NODES,
    GANG_RANK,
    GPUS,
    JOB_ID,
    JOB_ID_LABEL,
    NODE,
    OWN_PREFIX,
    POD_UID,
    REQUEUED_AT,
    STATUS_PREFIX,
    SUNK_PREFIX,
    Reason,
)

_HEAD = f"""\
# Annotations of a Pod

<!-- Printed by `python -m docs.generate.annotations` from `extender/domain/translation/settings.py`. -->

All of them are optional. What is not said is not sent, so that Slurm's own default holds, unless the site sets one.

```yaml
metadata:
  annotations:
    {OWN_PREFIX}partition: gpu
    {OWN_PREFIX}timeout: "90"
```

Three prefixes are read, so that manifests written for SUNK or slurm-bridge work unchanged:

| prefix | stands on |
|---|---|
| `{OWN_PREFIX}` | the Pod |
| `{SUNK_PREFIX}` | the Pod |
| `{BRIDGE_PREFIX}` | the Pod, or its topmost owner (Deployment, Job, LeaderWorkerSet …); the Pod's goes first |

Two habits of theirs are settings of the site here: slurm-bridge gives a Pod without `exclusive` a whole node (default
`exclusive: none`), and SUNK runs jobs as user and group 0.

* A setting under two prefixes must have one meaning (as `true` and `none` of `exclusive` have), or the Pod is refused.
* An empty value says nothing.
* A key under `{OWN_PREFIX}` that is not in the table makes the Pod refused, with the nearest key that exists. One under
  the other prefixes has no effect, and an Event says so.
* Values are checked for form. Whether a partition or an account exists is Slurm's to say; its words appear on the Pod.
* Everything that is wrong is said at once, in one Event. Nothing is tried again until the Pod or the
  configuration changes.
* While the Pod waits, its job follows a change of `account`, `partition`, `qos`, `wckey`, `comment`, `constraints`,
  `prefer`, `licenses`, `dependency`, `time-limit`, `nice` and `excluded-nodes` in place, and keeps its age in the
  queue. Any other change, and taking away `account`, `partition`, `qos`, `wckey` or `time-limit`, ends the waiting
  job and submits another. What Slurm refuses leaves the job as it is; its words appear on the Pod.
* When the Pod runs, its job follows a change of `comment`, and of `time-limit` to less. More time is an operator's to
  give: `scontrol update TimeLimit`, which is followed. Other changes have no effect then; an Event says so.
* Two Pods of one job must agree in all of them.
* `slurm-extender.io/opt-out: "true"` is no setting: it keeps a Pod with its own scheduler in a Namespace with the label
  `slurm-extender.io/scheduler-name`.

## Settings

A key marked with * needs the site's permission, unless it asks for what the Pod would get without it. A `nice` below 0
needs the permission for `priority`. A site may bound others too, by namespace, label or ServiceAccount: docs/policy.md.
"""

_TAIL = f"""
## What is taken from the Pod itself

| field of the Pod | in the job |
|---|---|
| effective requests of `cpu` | CPUs, rounded up to whole ones; none or 0 is refused, unless the site says otherwise |
| effective requests of `memory` | memory, rounded up to MiB; none or 0 as with `cpu` |
| extended resources | GRES and licences, by the site's map; one that the map does not name is not counted |
| node selector or required node affinity on a GPU label of the site | type of the GPUs, if it comes to exactly one |
| `activeDeadlineSeconds` | time limit: with the grace and a minute for the start, rounded up; not with `time-limit` |
| `activeDeadlineSeconds` of its Job | the same, as it is, rounded up to minutes; the shorter of both holds |
| `priorityClassName` | priority, nice or QOS, by the site's map (docs/policy.md) |
| namespace and ServiceAccount | user and account, where the site's policy names their owner |
| `namespace/name` | readable part of the job's name, where `job-name` is not given |

Effective requests are counted as kube-scheduler and kubelet count them. docs/resources.md says how, and what becomes of
resources that Slurm does not know.

Where a node selector or affinity allows several GPU types, or a label value that the site's map of GPU types does not
name, the GPUs are asked for without a type: the labels restrict the nodes all the same. If the map is not empty, an
Event names the unknown value.

## What the author is told

Events on the Pod. With the first three the Pod gets no job; the others do not keep it from one.

| reason | said when |
|---|---|
| `{Reason.INVALID}` | a setting is wrong or not allowed; every fault is named |
| `{Reason.NO_POLICY}` | the site's policy cannot be used since the start; the Pod waits until it can |
| `{Reason.NO_SUITABLE_NODE}` | no node that there is could ever hold the Pod; it is tried again when nodes change |
| `{Reason.UNKNOWN_SETTING}` | a key of SUNK or slurm-bridge is not known here |
| `{Reason.WITHOUT_EFFECT}` | a setting is known, and the Pod asks for nothing that it could apply to |
| `{Reason.UNACCOUNTED}` | Slurm is asked for less than the Pod requests, or does not know what it asks for |
| `{Reason.WHOLE_NODE}` | the Pod requests no CPU or no memory, and its job gets a whole node (`jobs.missingRequests`) |
| `{Reason.UNKNOWN_GPU_TYPE}` | a GPU label has a value that the site's map of GPU types does not name |

## Written by the extender

Annotations under `{STATUS_PREFIX}`. They are no settings. The label `{JOB_ID_LABEL}` has the job too, for selectors and
`kubectl get pods -L`; nothing is decided by it.

* `{JOB_ID}`, `{NODE}`, `{POD_UID}`: the job and the node that Slurm gave, and the UID of the
  Pod to which they were given: on a copy of it they mean nothing, and an Event says so. On a running Pod they are
  written again where somebody edits them.
* `{ALLOCATION_PROOF}`: that the extender wrote the job and the nodes on this very Pod. It is made with the
  key of the hooks. Without it nothing of the above is believed: Slurm is asked which job is the Pod's.
* `{DEVICES}`, `{GPUS}`: the devices that Slurm gave on the node, and the numbers of the GPUs among them
  (docs/resources.md).
* `{GANG_RANK}`, `{GANG_MEMBERS}`,
  `{GANG_NODES}`: of a member of a gang, its rank from 0, how many members there are, and the Slurm nodes
  of the gang in the order of ranks (docs/gangs.md).
* `{GANG_KEY}`: the gang of a bound member. It stays a member after a restart of the extender, whatever
  its labels, its PodGroup or the policy say by then.
* `{CANCELLED}`: somebody cancelled the job for which the Pod waited. This Pod gets another when a setting of it is
  changed; its successor, or a copy of it, gets one in any case.
* `{REQUEUED_AT}`: when the extender, at its start, made kube-scheduler requeue the Pod.
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
