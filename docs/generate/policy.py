"""Print `docs/policy.md` from the model in `extender.config.pod_policy`.

Run from the top of the repository: `python -m docs.generate.policy > docs/policy.md`
"""

from __future__ import annotations

import sys

from docs.generate.configuration import table
from extender.config.keys import POLICY

EXAMPLE = """\
apiVersion: slurm-extender.io/v1alpha1
kind: PodPolicy
owners:
  - match: {namespaces: [physics], serviceAccounts: [trainer]}
    user: alice
    account: physics-ml
  - match: {namespaceSelector: {matchLabels: {example.org/tenant: "yes"}}}
    user: "{namespace}"
    account: "{namespace}"
rules:
  - name: interns
    match: {namespaces: ["intern-*"]}
    defaults: {partition: small, qos: low, account: interns}
    allow:
      partition: [small]
      qos: [low]
      account: [interns]
      reservation: []
      timeLimitMinutes: {atMost: 120}
      exclusive: ["false", user]
      mode: [auto, batch]
      largestGang: 4
  - name: operators
    match: {namespaces: [ops]}
    allow:
      userId: ["*"]
      groupId: ["*"]
      priority: {atMost: 100000}
      nice: {atLeast: -1000}
priorityClasses:
  urgent: {qos: high}
  background: {nice: 5000}
"""

_HEAD = f"""\
# Policy for Pods

<!-- Printed by `python -m docs.generate.policy` from `extender/config/pod_policy.py`. -->

A second YAML document, named by `jobs.policyFile` of the configuration. `components/pod-policy` of the manifests mounts
it from a ConfigMap.

```yaml
{EXAMPLE}```

* A Pod gets what its annotation asks, else what its PriorityClass stands for, else what its owner and the defaults of
  its rule say, else the defaults of the configuration (namespace, then site), else Slurm's own.
* Without a policy, and in a Pod of which no rule says more, nobody runs as another user or group and nobody raises a
  priority: these need `jobs.allow`, which is empty, or a rule.
* A Pod that asks for more than its rule allows gets no job. The Event `InvalidSlurmSettings` names the rule, the value
  and what is allowed; every fault of the Pod at once.
* What a Pod gets without asking needs no permission, also when it asks for it. What neither Pod nor site says would
  be chosen by Slurm: where a rule lists accounts, partitions, QOS, modes or words of `exclusive`, it must list that
  too (an empty text, `auto`, `"false"`), or give a default.
* User and group are always sent together. Names are those of `slurm.users` and `slurm.groups`.
* Which account a user may charge is for Slurm to say as well (`AccountingStorageEnforce=associations`); without a rule
  that lists accounts a Pod may name those of `jobs.accounts`. Without a rule that says more, `jobs.partitions`,
  `jobs.qos`, `jobs.reservations` and `jobs.mcsLabels` list what else Pods may name; all are empty, and a
  partition that Slurm lets everybody use needs no list.
* Admission is not repeated here: who may use a namespace, a ServiceAccount or a PriorityClass, Kubernetes decides.
* `slurm-extender check-config FILE --policy POLICY` says everything that is wrong with it;
  `slurm-extender translate --config FILE --policy POLICY MANIFEST` shows what becomes of a Pod;
  [its JSON schema](policy.schema.json) is what `slurm-extender generate schema --policy` prints.

## When it changes

The file is looked at every 2 s and needs no restart; kubelet brings a changed ConfigMap within a minute or so.
What somebody writes into the file itself, and does not rename into its place, counts when it was the same at two
looks: it may be half of it.

* *Running Pods* are left alone, and so are Pods that have their node: nothing is ended, and no limit is shortened,
  neither at once nor after a restart. A limit that the Pod itself asks for by annotation is followed as always.
* *Waiting Pods* are translated anew, as after a restart. Where Slurm changes a waiting job in place
  (docs/annotations.md) it keeps its age in the queue, otherwise it ends and another is submitted. A Pod that is not
  allowed any more loses its waiting job and is told why; one that was refused and is allowed now gets a job.
* *Labels of a Namespace* that change do the same for the Pods there. A Pod whose Namespace is not known yet waits.
* *A policy that cannot be used* leaves the last good one in force: log line `policy_unusable` with every fault, metric
  `slurm_extender_policy_usable` 0, and the check `policy` of `/readyz?verbose` and `/debug/checks`.
  `slurm_extender_policy_loads_total` counts reads by `result`.
* *At a start* there is no last good one. The process starts all the same, since what runs has to be ended when its job
  is; but nothing new is asked of Slurm, and waiting Pods are told (`SlurmPolicyUnusable`), until the file can be used.
"""


def render() -> str:
    """The whole page, with a newline at its end."""
    everything = list(POLICY.keys.values())
    text = _HEAD + table(
        "The document", "", [key for key in everything if len(key.path) == 1 and not key.group], _NO_DEFAULTS
    )
    for group in everything:
        if group.group:
            inside = [key for key in everything if key.path[:-1] == group.path and not key.group]
            text += table(f"`{group.dotted}`", group.description, inside, _NO_DEFAULTS)
    return text


_NO_DEFAULTS: dict[str, object] = {}


if __name__ == "__main__":
    sys.stdout.write(render())
