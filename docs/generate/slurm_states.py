"""Print `docs/slurm-states.md` from the tables of `extender.domain.outcomes`.

Run from the top of the repository: `python -m docs.generate.slurm_states > docs/slurm-states.md`
"""

from __future__ import annotations

import sys

from extender.domain.outcomes import REASONS, STATES, StateRule

_HEAD = """\
# What Slurm's states mean here

<!-- Printed by `python -m docs.generate.slurm_states` from `extender/domain/outcomes.py`. -->

A job has one base state and any number of flags. A job that is over while `COMPLETING` is over: its nodes are being
cleaned up and no longer belong to it. A word that is not listed proves nothing, and nothing is ended because of it.
"""


def render() -> str:
    """The whole page, with a newline at its end."""
    lines = [_HEAD, "## Base states", "", *_states(flag=False)]
    lines += ["", "## Flags", "", *_states(flag=True)]
    lines += [
        "",
        "## Reasons of a job that waits",
        "",
        "A trailing `*` stands for every reason that starts so.",
        "",
        "| reason | means | in words |",
        "|---|---|---|",
    ]
    lines += [f"| {_code(rule.reason)} | {rule.means} | {rule.text}. |" for rule in REASONS]
    return "\n".join(lines) + "\n"


def _states(flag: bool) -> list[str]:
    rows = ["| state | the job | means | a Pod on it ends as |", "|---|---|---|---|"]
    return rows + [_row(rule) for rule in STATES if rule.flag is flag]


def _row(rule: StateRule) -> str:
    return f"| {_code(rule.word)} | {rule.text} | {rule.meaning} | {rule.kind or '-'} |"


def _code(word: str) -> str:
    return f"`{word}`" if word else "(none)"


if __name__ == "__main__":
    sys.stdout.write(render())
