"""The states of a placeholder and their changes as a picture, and as a table with the events behind each change."""

from __future__ import annotations

from math import cos, hypot, pi, sin

from docs.generate.state_diagram import changes
from extender.domain.placeholder import State

_WIDTH, _HEIGHT = 760, 520
_HALF = (52, 15)
_STYLE = """\
  .states rect { fill: #fff; stroke: #456; }
  .states text { font: 13px sans-serif; text-anchor: middle; fill: #123; }
  .states path { fill: none; stroke: #789; stroke-width: 1.2; marker-end: url(#tip); }
  .states path:hover { stroke: #c40; stroke-width: 2.4; }
  .states #tip path { fill: #789; stroke: none; marker-end: none; }"""


def render() -> str:
    """An SVG for a page of HTML, without an empty line.

    The states stand on an ellipse, clockwise in their order from the left, with an arrow for each possible change.
    """
    arrows = [_arrow(before, after, events) for (before, after), events in changes().items()]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" class="states">',
        f"<style>\n{_STYLE}\n</style>",
        '<rect style="stroke: none" width="100%" height="100%"/>',
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z"/></marker>',
        *arrows,
        *map(_box, State),
        "</svg>",
    ])  # fmt: skip


def table() -> str:
    """A table in Markdown: from, to, and the events that change the one to the other."""
    rows = [f"| {before} | {after} | {', '.join(events)} |" for (before, after), events in changes().items()]
    return "\n".join(["| from | to | by |", "|---|---|---|", *rows])


def _place(state: State) -> tuple[float, float]:
    turn = pi + 2 * pi * list(State).index(state) / len(State)
    return _WIDTH / 2 + (_WIDTH / 2 - 70) * cos(turn), _HEIGHT / 2 + (_HEIGHT / 2 - 30) * sin(turn)


def _box(state: State) -> str:
    x, y = _place(state)
    wide, high = _HALF
    return (
        f'<rect x="{x - wide:.0f}" y="{y - high:.0f}" width="{2 * wide}" height="{2 * high}" rx="6"/>'
        f'<text x="{x:.0f}" y="{y + 4:.0f}">{state}</text>'
    )


def _arrow(before: State, after: State, events: list[str]) -> str:
    """Draw from edge to edge of the boxes, bent to the left, so that a change and its reverse are two lines."""
    (x1, y1), (x2, y2) = _place(before), _place(after)
    length = hypot(x2 - x1, y2 - y1)
    bend = 14 + length / 12
    middle = (x1 + x2) / 2 + (y2 - y1) / length * bend, (y1 + y2) / 2 - (x2 - x1) / length * bend
    start, end = _edge((x1, y1), middle), _edge((x2, y2), middle)
    way = f"M{start[0]:.0f} {start[1]:.0f} Q{middle[0]:.0f} {middle[1]:.0f} {end[0]:.0f} {end[1]:.0f}"
    return f'<path d="{way}"><title>{before} to {after}: {", ".join(events)}</title></path>'


def _edge(centre: tuple[float, float], towards: tuple[float, float]) -> tuple[float, float]:
    """Return the point at which a line from the centre of a box crosses its edge."""
    across, down = towards[0] - centre[0], towards[1] - centre[1]
    share = min(half / abs(way) if way else 1e9 for half, way in zip(_HALF, (across, down), strict=True))
    return centre[0] + across * share, centre[1] + down * share
