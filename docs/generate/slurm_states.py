"""Print the states of Slurm in `docs/reference/states.md` from the tables of `extender.domain.job_outcomes`.

Run from the top of the repository: `python -m docs.generate.slurm_states` writes the page with fresh tables.
"""

from __future__ import annotations

from pathlib import Path

from docs.generate.marked import renewed
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

PAGE = Path("docs/reference/states.md")
BEGIN = "<!-- Printed by `python -m docs.generate.slurm_states` from `extender/domain/job_outcomes`. -->"
END = "<!-- The states of Slurm end here. -->"

_HEAD = """\
## States and reasons of Slurm jobs

A job has one base state and any number of flags. A job that has ended while `COMPLETING` has ended: its nodes are
being cleaned up and no longer belong to it. The extender ends nothing because of a state or flag that is not listed
here.

Each state leads to one row of this table, which the state machine executes. The columns are: the Pod waits; Slurm
allocated a node and the Pod is not bound; the Pod runs on the job. The reason of the Pod's Event is in brackets.
"""

_UNKNOWN = """
*Not in Slurm* is a job whose record slurmctld removed, lost with its state, or replaced by another job with the same
id. slurmctld removes a record MinJobAge after the end of the job; the extender may be away meanwhile. Two reads a
second apart have to confirm this, and 10 s more if Pods run on the job. If many jobs are missing, the mass-deletion
guard ends nothing before an administrator confirms. The extender drains the nodes of such Pods at the first read.
"""

_STATES = """\
*Condition of the job* is the row of the first table. *DisruptionTarget* is the reason of this condition on a running
Pod. A flag without a meaning of its own is shown as if beside `RUNNING`.
"""

_ENDS = """\
*Voluntary*: through the Eviction API until `limits.evictionDeadline`, then by deletion. *Shortened*: the grace
period of the Pod is shortened to KillWait, or to the end that Slurm announced. All others keep their own grace
period, up to `limits.maxGrace`.
"""


def canonical(rule: StateRule) -> JobView:
    """A job that bears this word, beside the base state with which Slurm shows it."""
    base = "PENDING" if rule.meaning is Meaning.TAKEN or rule.word == "RESV_DEL_HOLD" else "RUNNING"
    return JobView(7, "team/train", base if rule.flag else rule.word, frozenset({rule.word} if rule.flag else ()))


def waiting_for(rule: ReasonRule) -> JobView:
    """A job that waits for this reason."""
    return JobView(7, "team/train", "PENDING", reason=rule.reason.replace("*", "X"))


def render() -> str:
    """The part of the page, without a newline at its end."""
    lines = [_HEAD, "| condition of the job | the Pod waits | granted | bound |", "|---|---|---|---|"]
    lines += [
        f"| {word} | {' | '.join(_cell(TRANSITIONS[word][state]) for state in COLUMNS)} |" for word in JobCondition
    ]
    lines += [
        _UNKNOWN,
        "### Ends of running Pods",
        "",
        _ENDS,
        "| end | DisruptionTarget | voluntary | shortened |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {kind} | `{rule.reason}` | {_yes(rule.voluntary)} | {_yes(rule.hurried)} |" for kind, rule in ENDS.items()
    ]
    lines += ["", "### Base states", "", _STATES, *_states(flag=False)]
    lines += ["", "### Flags", "", *_states(flag=True)]
    lines += [
        "",
        "### Reasons of a pending job",
        "",
        "A trailing `*` stands for every reason with this prefix.",
        "",
        "| class | condition of the job |",
        "|---|---|",
    ]
    lines += [f"| {each} | {_class(each)} |" for each in ReasonClass]
    lines += ["", "| reason | class | explanation |", "|---|---|---|"]
    lines += [f"| {_code(rule.reason)} | {rule.means} | {rule.text}. |" for rule in REASONS]
    return "\n".join(lines)


def redrawn(page: str) -> str:
    """The page with fresh tables between its two markers. Raises `ValueError` where a marker is missing."""
    return renewed(page, PAGE, BEGIN, END, render())


def draw() -> None:
    """Write the page with fresh tables, from the top of the repository."""
    PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _cell(transition: Transition) -> str:
    text = transition.described(Timing())
    return f"{text} ({transition.event})" if transition.event else text


def _states(flag: bool) -> list[str]:
    rows = ["| state | the job | meaning | condition of the job | DisruptionTarget |", "|---|---|---|---|---|"]
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
    draw()
