"""`python -m tests.stateful [--depth N] [--report FILE]`: the exhaustive walk through the core, and what it visited."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from extender.domain.lifecycle.machine import TABLE, edges
from tests.builders.exhaustion import NEVER_GIVEN, Walked, walk


def main() -> None:
    """Walk, print the report, and fail where an entry of the table or a declared change of state was not met."""
    parser = argparse.ArgumentParser(prog="python -m tests.stateful", description=__doc__)
    parser.add_argument("--depth", type=int, default=3, help="events after a beginning (4: ten minutes or so)")
    parser.add_argument("--report", type=Path, help="where to write the report, besides printing it")
    options = parser.parse_args()
    walked = {pods: walk(pods, options.depth) for pods in (1, 2)}
    text = report(walked)
    sys.stdout.write(text)
    if options.report:
        options.report.write_text(text, encoding="utf-8")
    if walked[2].unreached or set(walked[2].edges) != set(edges()):
        sys.exit(1)


def report(walked: dict[int, Walked]) -> str:
    """What was visited, as Markdown. Keys: how many Pods the workload has."""
    depth = len(walked[2].depths)
    lines = [
        "# The core, walked through exhaustively",
        "",
        f"<!-- Printed by `python -m tests.stateful --depth {depth}`. -->",
        "",
        "One workload of one or two Pods, two attempts, two requests, two nodes. From each of its beginnings it gets",
        "every event that it could receive, also late, twice, or about another job, in every order,",
        f"{depth} events deep. Every step is held to its rule and to the invariants of a placeholder",
        "(`extender/domain/placeholder.py`). Placeholders that differ in nothing that decides count once.",
        "",
        "| Pods | events deep | placeholders given events | steps | new placeholders met |",
        "|---|---|---|---|---|",
    ]
    for pods, one in walked.items():
        for number, level in enumerate(one.depths, 1):
            lines.append(f"| {pods} | {number} | {level.placeholders:,} | {level.steps:,} | {level.met:,} |")
    two = walked[2]
    reached = len(two.pairs)
    declared = set(edges())
    entries = sum(len(rules) for rules in TABLE.values())
    lines += [
        "",
        f"{sum(one.steps for one in walked.values()):,} steps, no invariant broken, no rule led where it may not.",
        f"Entries of the table: {entries}; reached: {reached}; not reached: {len(two.unreached)};",
        f"never given, by construction: {len(NEVER_GIVEN)} (a Binding starts only where a node may be handed out).",
        f"Changes of state that the table declares: {len(declared)}; met: {len(declared & set(two.edges))};",
        f"met and not declared: {len(set(two.edges) - declared)}.",
        "",
        "| state | different placeholders met |",
        "|---|---|",
        *(f"| {state} | {count:,} |" for state, count in sorted(two.states.items())),
        "",
    ]
    lines += [f"Not reached: {state} x {event}." for state, event in two.unreached]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
