"""Print `docs/slurm-states.md` from the tables of `extender.domain.job_outcomes`.

Run from the top of the repository: `python -m docs.generate.slurm_states > docs/slurm-states.md`
"""

from __future__ import annotations

import sys

from extender.domain.job_outcomes.pod_ends import ENDS
from extender.domain.job_outcomes.slurm_states import (
    REASONS,
    STATES,
    Ended,
    Meaning,
    ReasonClass,
    ReasonRule,
    StateRule,
    observe,
)
from extender.domain.job_outcomes.transition_table import COLUMNS, TRANSITIONS, JobCondition, Transition, condition_of
from extender.domain.jobs.job import JobView
from extender.domain.placeholder import Timing

_HEAD = """\
# What Slurm's states mean here

<!-- Printed by `python -m docs.generate.slurm_states` from `extender/domain/job_outcomes`. -->

A job has one base state and any number of flags. A job that is over while `COMPLETING` is over: its nodes are being
cleaned up and no longer belong to it. A word that is not listed proves nothing, and nothing is ended because of it.

Every word comes to one line of the next table, which the state machine executes. It says what follows where the Pod
waits, where its job was granted and the Pod is not bound, and where a Pod runs on the job; in brackets the reason of
the Pod's Event.
"""

_UNKNOWN = """
*Not known to Slurm any more* is a job whose record was purged, MinJobAge after it ended while nobody looked, or lost
with slurmctld's state, or whose number is another job's now. Two reads a second apart have to say so; where Pods run on
it, 10 s pass besides, and where many jobs are missing nothing is ended before an administrator has looked (the
mass-deletion guard). The nodes of such Pods are drained from the first of these reads on.
"""

_STATES = """\
The last two columns are the line of the first table, and the reason of the `DisruptionTarget` condition that a running
Pod gets. A flag that says nothing by itself is shown beside `RUNNING`.
"""

_ENDS = """\
*Voluntary*: through the Eviction API until `limits.evictionDeadline`. *Hurried*: the Pod's grace is cut to KillWait, or
to the end that Slurm announced. All others have their own grace, up to `limits.maxGrace`.
"""


def canonical(rule: StateRule) -> JobView:
    """A job that bears this word, beside the base state with which Slurm shows it."""
    base = "PENDING" if rule.meaning is Meaning.TAKEN or rule.word == "RESV_DEL_HOLD" else "RUNNING"
    return JobView(7, "team/train", base if rule.flag else rule.word, frozenset({rule.word} if rule.flag else ()))


def waiting_for(rule: ReasonRule) -> JobView:
    """A job that waits for this reason."""
    return JobView(7, "team/train", "PENDING", reason=rule.reason.replace("*", "X"))


def render() -> str:
    """The whole page, with a newline at its end."""
    lines = [_HEAD, "| the job | the Pod waits | granted | bound |", "|---|---|---|---|"]
    lines += [
        f"| {word} | {' | '.join(_cell(TRANSITIONS[word][state]) for state in COLUMNS)} |" for word in JobCondition
    ]
    lines += [
        _UNKNOWN,
        "## Ends of running Pods",
        "",
        _ENDS,
        "| end | condition | voluntary | hurried |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {kind} | `{rule.reason}` | {_yes(rule.voluntary)} | {_yes(rule.hurried)} |" for kind, rule in ENDS.items()
    ]
    lines += ["", "## Base states", "", _STATES, *_states(flag=False)]
    lines += ["", "## Flags", "", *_states(flag=True)]
    lines += [
        "",
        "## Reasons of a job that waits",
        "",
        "A trailing `*` stands for every reason that starts so.",
        "",
        "| class | the job is |",
        "|---|---|",
    ]
    lines += [f"| {each} | {_class(each)} |" for each in ReasonClass]
    lines += ["", "| reason | means | in words |", "|---|---|---|"]
    lines += [f"| {_code(rule.reason)} | {rule.means} | {rule.text}. |" for rule in REASONS]
    return "\n".join(lines) + "\n"


def _cell(transition: Transition) -> str:
    text = transition.described(Timing())
    return f"{text} ({transition.event})" if transition.event else text


def _states(flag: bool) -> list[str]:
    rows = ["| state | the job | means | comes to | condition |", "|---|---|---|---|---|"]
    return rows + [_row(rule) for rule in STATES if rule.flag is flag]


def _row(rule: StateRule) -> str:
    seen = observe(canonical(rule))
    condition = f"`{ENDS[seen.kind].reason}`" if isinstance(seen, Ended) else "-"
    return f"| {_code(rule.word)} | {rule.text} | {rule.meaning} | {condition_of(seen)} | {condition} |"


def _class(means: ReasonClass) -> JobCondition:
    rule = next((rule for rule in REASONS if rule.means is means), ReasonRule("NoSuchReason", means, ""))
    return condition_of(observe(waiting_for(rule)))


def _yes(said: bool) -> str:
    return "yes" if said else "-"


def _code(word: str) -> str:
    return f"`{word}`" if word else "(none)"


if __name__ == "__main__":
    sys.stdout.write(render())
