"""Write the table of `docs/performance.md` from `bench/results/*.json`.

Run from the top of the repository: `python -m docs.generate.performance` writes the page with a fresh table. A row
whose measurement was not made, or was made by an older bench that wrote other figures, says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from docs.generate.flood import flood_lines
from docs.generate.marked import renewed
from docs.generate.performance_rows import ROWS, Json, Row, Shown

PAGE = Path("docs/performance.md")
RESULTS = Path("bench/results")
BEGIN = "<!-- Written by `python -m docs.generate.performance` from `bench/results`. -->"
END = "<!-- The table ends here. -->"
MISSING = "not measured"
PLOT_WIDTH = 40


def results(folder: Path) -> dict[str, Json]:
    """Every result that is there, by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def render(found: Mapping[str, Json]) -> str:
    """Return the table, the plot, and the date, machine and method of each measurement."""
    lines = ["| what | goal | measured | floor, same run | ratio | met |", "|---|---|---|---|---|---|"]
    lines += [_line(row, found.get(row.source)) for row in ROWS]
    sources = list(dict.fromkeys(row.source for row in ROWS if row.source in found))
    if "flat" in found:
        lines += ["", *_plot(found["flat"])]
    if "adversary" in found:
        lines += ["", *flood_lines(found["adversary"])]
    if sources:
        lines += ["", "| result | command | rounds, counts | parts | machine | date |", "|---|---|---|---|---|---|"]
        lines += [_origin(name, found[name]) for name in sources]
    return "\n".join(lines)


def _line(row: Row, found: Json | None) -> str:
    shown = Shown(MISSING, "", "", None)
    if found is not None:
        try:
            shown = row.show(found)
        except (KeyError, TypeError, IndexError):
            shown = Shown("measured by an older bench", "", "", None)
    met = {True: "yes", False: "**no**", None: "-"}[shown.met]
    return f"| {row.what} | {row.goal} | {shown.figure} | {shown.floor or '-'} | {shown.ratio or '-'} | {met} |"


def _origin(name: str, found: Json) -> str:
    told = [str(found.get(key, "?")) for key in ("parts", "machine", "date")]
    return f"| {name} | `{found.get('command', '?')}` | {_counted(found)} | {' | '.join(told)} |"


def _counted(found: Json) -> str:
    """Return the number of rounds and their size, if the result states them."""
    said = []
    for key in ("ours_s", "s", "filter_s"):
        one = found.get(key)
        if isinstance(one, dict) and "count" in one:
            said.append(f"{len(one['median_of_each_round'])} of {one['count'] // len(one['median_of_each_round'])}")
        elif isinstance(one, list):
            said.append(f"{len(one)} rounds")
    for key in ("per_s", "ours_per_s"):
        one = found.get(key)
        values = one.get("slurm") if isinstance(one, dict) else one
        if isinstance(values, list):
            said.append(f"{len(values)} rounds")
    return ", ".join(said) or "-"


def _plot(flat: Json) -> list[str]:
    """CPU of a placed Pod by the size of the crowd, as bars; the last columns may grow."""
    points = flat["points"]
    most = max(point["cpu_ms_per_pod"] for point in points)
    lines = [
        "CPU of the extender for each Pod placed at once, and, which may grow, by itself and for its first sync:",
        "",
        "```text",
    ]
    for point in points:
        bar = "█" * max(1, round(PLOT_WIDTH * point["cpu_ms_per_pod"] / most))
        counts = f"{point['waiting']:>4} waiting, {point['running']:>4} running, {point['nodes']:>5} nodes"
        size = f"{point['times']} times  {counts}"
        by_itself = f"{100 * point['idle_cpu_share']:.1f} % of a core, first sync {point['first_sync_cpu_s']:.1f} s"
        lines.append(f"{size}  {bar:<{PLOT_WIDTH}} {point['cpu_ms_per_pod']:5.2f} ms   {by_itself}")
    return [*lines, "```"]


def rewritten(page: str, found: Mapping[str, Json]) -> str:
    """The page with a fresh table between its two markers. Raises `ValueError` where a marker is missing."""
    return renewed(page, PAGE, BEGIN, END, f"\n{render(found)}\n")


def write() -> None:
    """Write the page with a fresh table, from the top of the repository."""
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), results(RESULTS)), encoding="utf-8")


if __name__ == "__main__":
    write()
