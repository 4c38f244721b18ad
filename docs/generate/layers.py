"""Draw the layers of the packages in `CONTRIBUTING.md` from the contract that import-linter holds, in `pyproject.toml`.

Run from the top of the repository: `python -m docs.generate.layers` writes the page with a fresh drawing.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from docs.generate.marked import renewed

PAGE = Path("CONTRIBUTING.md")
BEGIN = "<!-- Drawn by `python -m docs.generate.layers` from `pyproject.toml`. -->"
END = "<!-- The layers end here. -->"
CONTRACT = "Dependencies point inwards"

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def render() -> str:
    """A box for each layer, the outermost on top."""
    contracts = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    [layers] = [one["layers"] for one in contracts if one["name"] == CONTRACT]
    shown = ["  ".join(package.strip().removeprefix("extender.") for package in layer.split("|")) for layer in layers]
    wide = max(map(len, shown))
    edge = f"+-{'-' * wide}-+"
    rows = [line for names in shown for line in (f"| {names.center(wide)} |", edge)]
    return "\n".join(["```", edge, *rows, "```"])


def redrawn(page: str) -> str:
    """The page with a fresh drawing between its two markers. Raises `ValueError` where a marker is missing."""
    return renewed(page, PAGE, BEGIN, END, render())


def draw() -> None:
    """Write the page with a fresh drawing, from the top of the repository."""
    PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    draw()
