"""What the site shows is what lies in the repository, and what leads nowhere is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from docs.generate.state_diagram import changes
from docs.generate.state_drawing import render, table
from docs.site.sources import INDEX, LISTS, lay_out, pages
from extender.domain.placeholder import State
from tests.builders.kustomize import COMPONENTS

TOP = Path(__file__).parents[3]
GENEROUS_S = 300
"""For a process that builds a site, on a machine that has other work."""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small one."""
    top = tmp_path / "repository"
    for folder in ("decisions", "proof", "reference", "runbooks", "site"):
        (top / "docs" / folder).mkdir(parents=True)
    for page in (INDEX, "docs/fences.md", *LISTS.values()):
        (top / page).write_text("# A page\n")
    (top / "LICENSE").write_text("free")
    return top


def shown(repository: Path, text: str, page: str = "docs/nodes.md") -> str:
    """What the site has for a page of that text. What is wrong is an `AssertionError`."""
    (repository / page).write_text(text)
    faults = lay_out(repository, repository / "build")
    assert not faults, faults
    return (repository / "build" / page).read_text()


@pytest.mark.parametrize(
    ("said", "there"),
    [
        ("see docs/fences.md.", "see [docs/fences.md](fences.md)."),
        ("(docs/fences.md, below)", "([docs/fences.md](fences.md), below)"),
        ("`docs/fences.md`", "[docs/fences.md](fences.md)"),
        ("`fences.md`", "[fences.md](fences.md)"),
        ("[fences](fences.md#a-page)", "[fences](fences.md#a-page)"),
        ("[docs/fences.md](fences.md)", "[docs/fences.md](fences.md)"),
        ("[all](runbooks)", "[all](alerts.md)"),
        ("[elsewhere](https://example.org/docs/x.md)", "[elsewhere](https://example.org/docs/x.md)"),
        ("`python > docs/fences.md`", "`python > docs/fences.md`"),
        ("```\ndocs/fences.md\n```", "```\ndocs/fences.md\n```"),
        ("\n    cat docs/fences.md\n", "\n    cat docs/fences.md\n"),
        ("a README.md of theirs", "a README.md of theirs"),
    ],
)
def test_the_name_of_a_page_is_a_link_and_code_is_left_as_it_is(repository: Path, said: str, there: str) -> None:
    assert shown(repository, said) == there


def test_a_link_to_another_file_leads_to_a_copy_of_it(repository: Path) -> None:
    assert shown(repository, "[licence](../LICENSE)") == "[licence](../LICENSE)"
    assert (repository / "build/LICENSE").read_text() == "free"


def test_a_page_that_is_named_and_not_there_is_a_fault(repository: Path) -> None:
    (repository / "docs/nodes.md").write_text("as docs/fence.md says, and `docs/proof/none.md`")
    assert lay_out(repository, repository / "build") == [
        "docs/nodes.md names docs/fence.md, which is not there",
        "docs/nodes.md names docs/proof/none.md, which is not there",
    ]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("[fences](fences.md#a-page)", ""),
        ("[fences](fences.md#elsewhere)", "'elsewhere'"),
        ("[fences](fence.md)", "'fence.md'"),
        ("see docs/proof/none.md", "docs/proof/none.md, which is not there"),
    ],
)
def test_a_site_with_a_link_to_what_is_not_there_is_none(repository: Path, said: str, found: str) -> None:
    listed = ["docs/nodes.md", "docs/fences.md", *LISTS.values()]
    (repository / INDEX).write_text("\n".join(["# All", "", "```{toctree}", *listed, "```", ""]))
    (repository / "docs/nodes.md").write_text(f"# Nodes\n\n{said}\n")
    command = [sys.executable, "-m", "docs.site", str(repository / "build"), str(repository)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False, timeout=GENEROUS_S)
    assert found in done.stderr
    assert done.returncode == (1 if found else 0), done.stderr
    assert (repository / "build/html/docs/nodes.html").is_file()


def test_the_link_of_every_alert_leads_to_its_heading_on_the_built_site(tmp_path: Path) -> None:
    index, here = tmp_path / "top" / INDEX, tmp_path / "top" / "docs"
    for folder in ("decisions", "proof", "reference", "site"):
        (here / folder).mkdir(parents=True)
    shutil.copytree(TOP / "docs/runbooks", here / "runbooks")
    for page in LISTS.values():
        (here.parent / page).write_text("# A page\n")
    index.write_text("\n".join(["# All", "", "```{toctree}", *LISTS.values(), "```", ""]))
    command = [sys.executable, "-m", "docs.site", str(tmp_path / "site"), str(tmp_path / "top")]
    # What these pages name of others is not there.
    subprocess.run(command, cwd=TOP, capture_output=True, check=False, timeout=GENEROUS_S)
    links = [one["value"] for one in yaml.safe_load((COMPONENTS / "runbook-links" / "links.yaml").read_text())]
    for link in links:
        shown = (tmp_path / "site/html" / link).read_text(encoding="utf-8")
        assert f"<h1>{Path(link).stem}<" in shown
    assert len(links) > 10


def test_the_states_are_drawn_with_every_change(repository: Path) -> None:
    drawn = shown(repository, "```mermaid\nstateDiagram-v2\n  A --> B\n```")
    drawing = render()
    assert f"<div>\n{drawing}\n</div>\n\n{table()}" in drawn
    assert "\n\n" not in drawing
    for state in State:
        assert drawing.count(f">{state}</text>") == 1
    for (before, after), events in changes().items():
        assert f"<title>{before} to {after}: {', '.join(events)}</title>" in drawing


def test_no_page_of_this_repository_names_one_that_is_not_there(tmp_path: Path) -> None:
    assert lay_out(TOP, tmp_path) == []


def test_every_page_has_its_place_on_the_first() -> None:
    index = (TOP / INDEX).read_text(encoding="utf-8")
    listed = [page for page in pages(TOP) if str(page) in LISTS.values() or page.parent.as_posix() not in LISTS]
    assert [page for page in listed if f"\n{page}\n" not in index] == []
