"""Print `docs/policy.md`, and the keys of a policy in `docs/reference/policy.md` from `extender.config.pod_policy`."""

from __future__ import annotations

from docs.generate.configuration import table
from extender.config.schema_keys import POLICY

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
      timeLimit: {atMost: 2h}
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

_GUIDE = f"""\
# Policy for Pods

<!-- Printed by `python -m docs.generate` from `docs/generate/policy.py`, whose example the tests run. -->

After reading this page you can decide which Pods may use which Slurm user, account, partition, QOS and limits. The
policy is a YAML document beside the configuration; `jobs.policyFile` names it. `components/pod-policy` of the
manifests mounts it from a ConfigMap.

```yaml
{EXAMPLE}```

Check a policy, and show its effect on a manifest:

    slurm-extender check-config FILE --policy POLICY
    slurm-extender translate --config FILE --policy POLICY MANIFEST

The [reference](reference/policy.md) has every key. `slurm-extender generate schema --policy` prints
[its JSON schema](reference/policy.schema.json).

## Rules

* *Order*: the value of a setting comes from the first of these that has one: the annotation of the Pod, its
  PriorityClass, its owner, the defaults of its rule, `jobs` of the configuration (namespace, then site), Slurm.
* *Without a policy*, or without a rule for the Pod, no Pod may set its user or group or raise its priority. Only
  `jobs.allow` permits these keys then; it is empty by default.
* *Violation*: a Pod that asks for more than its rule allows gets no job. The Event `InvalidSlurmSettings` names the
  rule, the value and the allowed values, for all errors of the Pod.
* *Defaults need no permission*, even if the Pod sets the same value itself.
* *Lists must cover unset values*: if neither the Pod nor the site sets a value, Slurm chooses it. This applies to rules
  that list accounts, partitions, QOS, modes or words of `exclusive`. Such a rule must list the unset value (an empty
  text, `auto`, `"false"`), or set a default.
* *User and group* are always sent together. Names are those of `slurm.users` and `slurm.groups`.
* *Accounts*: Slurm checks the account of a user too (`AccountingStorageEnforce=associations`). Without a rule that
  lists accounts, a Pod may use those of `jobs.accounts`.
* *Other lists*: without a rule, Pods may use the values of `jobs.partitions`, `jobs.qos`, `jobs.reservations` and
  `jobs.mcsLabels`. All are empty by default. A partition that Slurm opens to all users needs no list.
* *Admission stays in Kubernetes*: it decides who may use a namespace, a ServiceAccount or a PriorityClass.

## Changes of the policy

The extender checks the file every 2 s and needs no restart. The kubelet updates a mounted ConfigMap within about a
minute. If the file is written in place and not replaced by a rename, the extender waits until two checks read the same
content.

* *Running and placed Pods* continue unchanged, also after a restart: no job ends, and no time limit gets shorter. The
  job still follows the time limit of an annotation.
* *Waiting Pods* are translated again. Slurm changes the job in place if it can
  ([annotations](reference/annotations.md#changes)); otherwise the extender submits another job. A Pod without
  permission loses its waiting job and gets an Event. A rejected Pod that has permission now gets a job.
* *Labels of a Namespace*: a change has the same effect on its Pods. A Pod waits until its Namespace has been read.
* *Invalid policy*: the last valid policy applies. The log line `policy_unusable` lists all errors, the metric
  `slurm_extender_policy_usable` is 0, and the check `policy` of `/readyz?verbose` and `/debug/checks` fails.
  `slurm_extender_policy_loads_total` counts reads by `result`.
* *Invalid policy at the start*: no last valid policy exists. The extender starts, because running Pods must end with
  their jobs, but submits no job. Waiting Pods get the Event `SlurmPolicyUnusable`.
"""

_KEYS = """\
# Keys of a policy for Pods

<!-- Printed by `python -m docs.generate` from `extender/config/pod_policy.py`. -->

Use this page to look up a key of the policy file. [Policy](../policy.md) describes rules, owners and changes of the
file, with an example.
"""


def render() -> str:
    """The guide, with a newline at its end."""
    return _GUIDE


def reference() -> str:
    """The tables of keys, with a newline at their end."""
    everything = list(POLICY.keys.values())
    text = _KEYS + table(
        "The document", "", [key for key in everything if len(key.path) == 1 and not key.group], _NO_DEFAULTS
    )
    for group in everything:
        if group.group:
            inside = [key for key in everything if key.path[:-1] == group.path and not key.group]
            text += table(f"`{group.dotted}`", group.description, inside, _NO_DEFAULTS)
    return text


_NO_DEFAULTS: dict[str, object] = {}
