"""Draw panels from answers of a real Prometheus as one SVG: the lines are its numbers, the look is not Grafana's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT, GAP = 430, 264, 12
LEFT, TOP, RIGHT, BOTTOM = 46, 36, 14, 72
"""Margins of a plot inside its panel."""

GAP_S = 5.0
"""A series without a value for so long has none in between: no line is drawn there."""

COLOURS = ("#1f5fa8", "#c4621d", "#2e8540", "#8a4fbf", "#b3261e", "#5b6675")
TICKS = 4


@dataclass(frozen=True)
class Line:
    """One series: points are seconds since the begin, and values."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """A panel of the dashboard and its series."""

    title: str
    unit: str
    lines: Sequence[Line]


def svg(panels: Sequence[Panel], seconds: float, columns: int = 2) -> str:
    """Return the picture of panels over so many seconds."""
    rows = -(-len(panels) // columns)
    width, height = columns * (WIDTH + GAP) + GAP, rows * (HEIGHT + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="First row of the dashboard: {escape(_titles(panels))}">',
        f'<rect width="{width}" height="{height}" fill="#f5f6f8"/>',
    ]
    for number, panel in enumerate(panels):
        x, y = GAP + number % columns * (WIDTH + GAP), GAP + number // columns * (HEIGHT + GAP)
        parts += [f'<g transform="translate({x} {y})">', *_panel(panel, seconds), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _titles(panels: Sequence[Panel]) -> str:
    return ", ".join(panel.title for panel in panels)


def _panel(panel: Panel, seconds: float) -> Iterator[str]:
    top = _round_up(max((value for line in panel.lines for _, value in line.points), default=0.0))
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff" stroke="#dde1e7"/>'
    yield f'<text x="14" y="22" font-size="14" font-weight="bold" fill="#1b2129">{escape(panel.title)}</text>'
    for tick in range(TICKS + 1):
        y = TOP + plot_height * (1 - tick / TICKS)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#e6e9ee"/>'
        label = f"{top * tick / TICKS:g}{panel.unit}"
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#5b6675">{escape(label)}</text>'
        x = LEFT + plot_width * tick / TICKS
        when = f"{seconds * tick / TICKS:.0f} s"
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#5b6675">{when}</text>'
    for line, colour in zip(panel.lines, _colours(len(panel.lines)), strict=True):
        for run in _runs(line.points):
            at = (
                f"{LEFT + plot_width * when / seconds:.1f},{TOP + plot_height * (1 - value / top):.1f}"
                for when, value in run
            )
            yield (
                f'<polyline points="{" ".join(at)}" fill="none" stroke="{colour}" stroke-width="2" '
                'stroke-linecap="round"/>'
            )
    if not panel.lines:
        middle = TOP + plot_height / 2
        yield f'<text x="{WIDTH / 2}" y="{middle}" text-anchor="middle" fill="#5b6675">none</text>'
    x, y = float(LEFT), HEIGHT - 34
    for line, colour in zip(panel.lines, _colours(len(panel.lines)), strict=True):
        width = 32 + 6.8 * len(line.name)
        if x + width > WIDTH - RIGHT + 15:
            x, y = float(LEFT), y + 18
        yield f'<rect x="{x:.0f}" y="{y - 6}" width="12" height="4" fill="{colour}"/>'
        yield f'<text x="{x + 17:.0f}" y="{y}" fill="#1b2129">{escape(line.name)}</text>'
        x += width


def _runs(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Return the points of a series in runs without a gap."""
    runs: list[list[tuple[float, float]]] = []
    for point in points:
        if not runs or point[0] - runs[-1][-1][0] > GAP_S:
            runs.append([])
        runs[-1].append(point)
    return [run if len(run) > 1 else [*run, (run[0][0] + 1.0, run[0][1])] for run in runs]


def _colours(count: int) -> list[str]:
    return [COLOURS[number % len(COLOURS)] for number in range(count)]


def _round_up(value: float) -> float:
    """Return the smallest of 1, 2, 4 and 8 times a power of ten that is not below a value."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power > value:
        power /= 10
    while power * 10 < value:
        power *= 10
    return next((power * step for step in (1, 2, 4, 8) if power * step >= value), power * 10)
