"""Print `docs/why.md` from the tables of `extender.domain`: `why` and `outcomes`.

Run from the top of the repository: `python -m docs.generate.why > docs/why.md`
"""

from __future__ import annotations

import sys

from extender.controllers.explanations import ExplanationOptions
from extender.domain.job_outcomes.slurm_states import REASONS
from extender.domain.pods.why import MEANINGS, Cause, cause_of_reason

_OPTIONS = ExplanationOptions()
_STEADY, _APART, _WRITES = f"{_OPTIONS.steady:g} s", f"{_OPTIONS.apart:g} s", f"{_OPTIONS.writes:g}"

_HEAD = f"""\
# Why does my Pod wait?

<!-- Printed by `python -m docs.generate.why` from `extender/domain/pods/why.py` and `extender/domain/job_outcomes`. -->

One sentence says it, and it is the same wherever it is asked for:

    kubectl slurm why POD
    kubectl get pod POD -o jsonpath='{{.status.conditions[?(@.type=="slurm-extender.io/Allocated")].message}}'
    kubectl describe pod POD
    curl http://127.0.0.1:8083/debug/placeholders/UID

For example:

    Slurm job 4711 waits: Higher-priority jobs are ahead of it in the queue (Priority). Partition: batch.
    About 40 other Pods are ahead of it in this partition. Slurm expects it to start at about 2026-11-22 17:00Z.

## The condition `slurm-extender.io/Allocated`

It is `False` while the Pod waits. Its reason is one of the first table, its message the sentence. Once the Pod is bound
to the node that Slurm gave, it is `True`.

A Pod that is placed within {_STEADY} does not get the condition: the two writes that place it are all that it costs.
Its annotations `status.slurm-extender.io/job-id` and `status.slurm-extender.io/node` say the rest. So do not wait for
the condition with `kubectl wait`; wait for `PodScheduled`.

It is written when its cause has lasted for {_STEADY}, and changed every {_APART} at most. All Pods together are
written to {_WRITES} times a second at most, one after the other: where ten thousand wait, a change can take a quarter
of an hour to show. `kubectl slurm why` shows the present one where it reaches `/debug`. Nothing is written while
nothing changes. The times are rounded for that: to five minutes within an hour, to an hour within a day. kube-scheduler
is never told any of it.

A sentence of the queue is as old as the last reading of the job: those that wait are read in turn
(`limits.refreshRate`).

* *Position*: how many other jobs of this extender wait in the same partition with a higher priority, or with the same
  one and a lower number. Slurm does not tell the place in its whole queue without telling all jobs, so those of others
  are not counted.
* *Expected start*: what Slurm's backfill scheduler has worked out last. It can be earlier where jobs end before their
  time limit, and later where others overtake. Where it has not looked at the job, nothing is said.
* *Slurm has not answered since*: no poll was answered for half a minute. What follows is what Slurm said last.

## Causes
"""

_SLURM = """
## Slurm's reasons

What Slurm says of a job that waits (`squeue`, column REASON), in words, and the cause that it comes to. A trailing `*`
stands for every reason that starts so. [States](states.md) lists the effect of each on the Pod.
"""


def render() -> str:
    """The whole page, with a newline at its end."""
    lines = [_HEAD, "| reason of the condition | what it means |", "|---|---|"]
    lines += [f"| `{cause}` | {MEANINGS[cause]}. |" for cause in Cause]
    lines += [_SLURM, "| reason of Slurm | cause | in words |", "|---|---|---|"]
    lines += [
        f"| {f'`{rule.reason}`' if rule.reason else '(none)'} | `{cause_of_reason(rule.means)}` | {rule.text}. |"
        for rule in REASONS
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
