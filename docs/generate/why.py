"""Print `docs/reference/why.md` from the tables of `extender.domain`: `pods.why` and `job_outcomes`.

Run from the top of the repository: `python -m docs.generate.why > docs/reference/why.md`
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

After reading this page you can find out why a Pod waits, and act on each cause. One sentence explains it. These
commands show the same sentence:

    kubectl slurm why POD
    kubectl get pod POD -o jsonpath='{{.status.conditions[?(@.type=="slurm-extender.io/Allocated")].message}}'
    kubectl describe pod POD
    curl http://127.0.0.1:8083/debug/placeholders/UID

For example:

    Slurm job 4711 waits: Higher-priority jobs are ahead of it in the queue (Priority). Partition: batch.
    About 40 other Pods are ahead of it in this partition. Slurm expects it to start at about 2026-11-22 17:00Z.

## Parts of the sentence

* *Position*: the number of jobs of the extender that are ahead in the same partition: with a higher priority, or
  with the same priority and a lower number. Jobs of others are not counted, because Slurm shows its whole queue
  only in a list of all jobs.
* *Expected start*: the last estimate of Slurm's backfill scheduler. The job can start earlier if other jobs end
  before their time limit, and later if other jobs overtake it. Without an estimate, the sentence has no start.
* *Slurm has not answered since*: no poll succeeded for 30 s. The rest of the sentence is the last known state.

The extender reads waiting jobs in round-robin order (`limits.refreshRate`), so the sentence can be slightly out
of date.

## The condition `slurm-extender.io/Allocated`

The condition is `False` while the Pod waits: its reason is a cause of the next table, its message the sentence.
The condition is `True` once the Pod is bound to the node that Slurm allocated.

* A Pod that is placed within {_STEADY} does not get the condition, to save writes. To wait for a Pod with
  `kubectl wait`, use `PodScheduled`. The annotations `status.slurm-extender.io/job-id` and
  `status.slurm-extender.io/node` show job and node.
* The extender writes the condition when its cause has lasted for {_STEADY}, and changes it at most every
  {_APART}. It writes at most {_WRITES} conditions per second for all Pods. With ten thousand waiting Pods a
  change can take 15 minutes to appear; `kubectl slurm why` with access to `/debug` shows the current sentence.
* Times are rounded to 5 minutes within an hour, and to an hour within a day, so that the condition rarely
  changes.

## Causes
"""

_SLURM = """
## Slurm's reasons

Slurm's reason of a waiting job (`squeue`, column REASON), its meaning, and the cause in the condition. A trailing
`*` matches every reason with this beginning. [States](states.md) describes the effect on the Pod.
"""


def render() -> str:
    """The whole page, with a newline at its end."""
    lines = [_HEAD, "| reason of the condition | meaning |", "|---|---|"]
    lines += [f"| `{cause}` | {MEANINGS[cause]}. |" for cause in Cause]
    lines += [_SLURM, "| reason of Slurm | cause | meaning |", "|---|---|---|"]
    lines += [
        f"| {f'`{rule.reason}`' if rule.reason else '(none)'} | `{cause_of_reason(rule.means)}` | {rule.text}. |"
        for rule in REASONS
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
