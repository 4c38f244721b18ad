"""Draw the state diagram of `docs/reference/states.md` from the transition table of `extender.domain.lifecycle`.

Run from the top of the repository: `python -m docs.generate.state_diagram` writes the page with a fresh diagram.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from docs.generate.marked import renewed
from extender.domain.lifecycle.machine import edges
from extender.domain.placeholder import State

PAGE = Path("docs/reference/states.md")
BEGIN = "<!-- Drawn by `python -m docs.generate.state_diagram` from `extender/domain/lifecycle`. -->"
END = "<!-- The drawing ends here. -->"


def changes() -> dict[tuple[State, State], list[str]]:
    """Every possible change of state with the events behind it, in the order of the states."""
    events: defaultdict[tuple[State, State], list[str]] = defaultdict(list)
    for state, target, event in edges():
        events[state, target].append(event)
    order = list(State)
    arrows = sorted(events, key=lambda arrow: (order.index(arrow[0]), order.index(arrow[1])))
    return {arrow: events[arrow] for arrow in arrows}


def render() -> str:
    """The Mermaid block: one arrow for each possible change of state, labelled with the events behind it."""
    lines = ["```mermaid", "stateDiagram-v2", f"  [*] --> {State.ABSENT}", f"  [*] --> {State.UNSURE} : start"]
    lines += [f"  {state} --> {target} : {', '.join(events)}" for (state, target), events in changes().items()]
    return "\n".join([*lines, f"  {State.GONE} --> [*]", "```"])


def redrawn(page: str) -> str:
    """The page with a fresh drawing between its two markers. Raises `ValueError` where a marker is missing."""
    return renewed(page, PAGE, BEGIN, END, render())


def draw() -> None:
    """Write the page with a fresh drawing, from the top of the repository."""
    PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    draw()
