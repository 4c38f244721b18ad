"""No test of the real parts is left out."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_test_of_the_real_parts_is_where_make_e2e_finds_it() -> None:
    (named,) = re.findall(r"^REAL_PARTS := (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    folders = [ROOT / name for name in named.split()]
    mark = "mark" + ".lab"
    marked = [path for path in (ROOT / "tests").rglob("test_*.py") if mark in path.read_text(encoding="utf-8")]
    assert len(marked) > 10
    assert [path for path in marked if not any(path.is_relative_to(folder) for folder in folders)] == []
