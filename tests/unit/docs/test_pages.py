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
from extender.doctor.checks.kubernetes import NEWEST, OLDEST
from extender.domain.wellknown import Reason
from lab.build_kubernetes import kubernetes_minors, newest_minor
from lab.build_slurm import RELEASES
from simulator.slurm.release import NEWEST as NEWEST_SLURM
from slurmclient.capabilities import OLDEST_RELEASE

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


def test_the_page_on_versions_lists_everything_that_the_lab_builds() -> None:
    rows = (TOP / "docs/reference/versions.md").read_text(encoding="utf-8").splitlines()
    for minor in kubernetes_minors():
        part = "" if minor == newest_minor() else ", a part"
        said = re.compile(rf"\| {re.escape(minor)} \|.*\| v{re.escape(minor)}\.\d+{part} \|")
        assert any(said.fullmatch(row) for row in rows), minor
    for release in RELEASES:
        assert any(row.startswith(f"| {release} |") and f"proof/slurm-{release}.md" in row for row in rows), release
        assert (TOP / f"docs/proof/slurm-{release}.md").is_file()


def test_every_event_has_its_line() -> None:
    page = (TOP / "docs/reference/events.md").read_text(encoding="utf-8")
    assert [str(reason) for reason in Reason if f"`{reason}`" not in page] == []
    known = {str(reason) for reason in Reason}
    told = {name for row in re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert told == known


def test_readme_doctor_and_manifests_agree_on_the_versions_that_are_meant() -> None:
    components = (TOP / "manifests/components").glob("kubernetes-1.*")
    minors = sorted(int(folder.name.partition(".")[2]) for folder in components)
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert ((1, minors[0]), (1, minors[-1])) == (OLDEST, NEWEST)
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    assert f"Kubernetes 1.{minors[0]} to 1.{minors[-1]}, with `components/kubernetes-…` of the version" in readme
    slurm = NEWEST_SLURM.rpartition(".")[0]
    assert f"Slurm {'.'.join(map(str, OLDEST_RELEASE))} to {slurm}; " in readme


def test_the_design_is_read_in_one_sitting() -> None:
    assert len((TOP / "docs/design.md").read_text(encoding="utf-8").split()) <= 2500, "move reasons to docs/decisions"
