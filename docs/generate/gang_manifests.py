"""Copy examples of gangs from `examples/` into `docs/gangs.md`.

Run from the top of the repository: `python -m docs.generate.gang_manifests` writes the page with fresh copies.
"""

from __future__ import annotations

from pathlib import Path

from docs.generate.marked import renewed

PAGE = Path("docs/gangs.md")
BEGIN = "<!-- Copied by `python -m docs.generate.gang_manifests` from `examples`. -->"
END = "<!-- The copies end here. -->"
SHOWN = {"JobSet": "jobset.yaml", "LeaderWorkerSet": "vllm.yaml", "MPIJob": "mpi.yaml"}
"""Example of each kind of owner, in the order of the page."""

_EXAMPLES = Path(__file__).parents[2] / "examples"


def render() -> str:
    """Return the examples, each under the name of its owner's kind."""
    parts = []
    for kind, name in SHOWN.items():
        text = (_EXAMPLES / name).read_text(encoding="utf-8")
        parts.append(f"\n### {kind}\n\n[{name}](../examples/{name}):\n\n```yaml\n{text}```\n")
    return "".join(parts)


def rewritten(page: str) -> str:
    """Return the page with fresh copies between its two markers. Raises `ValueError` where a marker is missing."""
    return renewed(page, PAGE, BEGIN, END, render())


def draw() -> None:
    """Write the page with fresh copies, from the top of the repository."""
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    draw()
