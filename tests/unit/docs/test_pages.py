"""Every generated page is what its generator prints, and what pages say is in the repository is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from docs.generate.__main__ import PAGES
from docs.site import sources
from lab.build_kubernetes import kubernetes_minors
from lab.build_slurm import RELEASES

TOP = Path(__file__).parents[3]
NAMED = re.compile(r"`((?:tests|lab|extender|slurmclient|manifests|bench|docs)/[\w./-]+\.\w+)(?:::(\w+))?[`\[]")


@pytest.mark.parametrize(("page", "render"), PAGES.items(), ids=map(str, PAGES))
def test_a_generated_page_is_what_its_generator_prints(page: Path, render: Callable[[], str]) -> None:
    assert (TOP / page).read_text(encoding="utf-8") == render(), f"{page} is stale: make docs"


@pytest.mark.parametrize("page", [one for one in sources.pages(TOP) if one.name != "CHANGELOG.md"], ids=str)
def test_files_and_tests_that_a_page_names_are_there(page: Path) -> None:
    for name, test in NAMED.findall((TOP / page).read_text(encoding="utf-8")):
        assert (TOP / name).exists(), f"{page} names {name}"
        assert not test or test in functions(name), f"{page} names {name}::{test}"


@cache
def functions(name: str) -> frozenset[str]:
    """The functions of a file, by name."""
    tree = ast.parse((TOP / name).read_text(encoding="utf-8"))
    return frozenset(one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


def test_the_page_on_versions_tells_everything_that_the_lab_builds() -> None:
    rows = (TOP / "docs/versions.md").read_text(encoding="utf-8").splitlines()
    for minor in kubernetes_minors():
        assert any(row.startswith(f"| {minor} |") and row.endswith(f"| v{minor}.{row[-3]} |") for row in rows), minor
    for release in RELEASES:
        assert any(row.startswith(f"| {release} |") and f"proof/slurm-{release}.md" in row for row in rows), release
        assert (TOP / f"docs/proof/slurm-{release}.md").is_file()
