"""Pages for readers in a hurry have short sentences and short lines, and open with what the reader can do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]
PAGES = (
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "docs/administration.md",
    "docs/alerts.md",
    "docs/comparison.md",
    "docs/concepts.md",
    "docs/design.md",
    "docs/fences.md",
    "docs/gangs.md",
    "docs/glossary.md",
    "docs/kubectl-slurm.md",
    "docs/migrate.md",
    "docs/nodes.md",
    "docs/operations.md",
    "docs/performance.md",
    "docs/pods.md",
    "docs/policy.md",
    "docs/quickstart.md",
    "docs/reference/README.md",
    "docs/reference/annotations.md",
    "docs/reference/bad-input.md",
    "docs/reference/doctor.md",
    "docs/reference/events.md",
    "docs/reference/http-api.md",
    "docs/reference/limits.md",
    "docs/reference/metrics.md",
    "docs/reference/policy.md",
    "docs/reference/rights.md",
    "docs/reference/states.md",
    "docs/reference/versions.md",
    "docs/reference/why.md",
    "docs/resources.md",
    "docs/security.md",
    "docs/simulation.md",
    "examples/README.md",
    "lab/README.md",
    "manifests/README.md",
)
"""Pages that keep to the limits. A page is added here once it does, and is never taken off."""
MOST_WORDS = 25
LONGEST_LINE = 120
_NO_PROSE = re.compile(r"^ *```.*?^ *```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"(?:\*|-|\d+\.|#+) ")
_END = re.compile(r"(?<=[.:;?!])[*)]*\s+")


def blocks(text: str) -> Iterator[str]:
    """Paragraphs, items of lists and cells of tables, each as one line. Code blocks are left out."""
    block: list[str] = []
    for line in [*_NO_PROSE.sub("", text).splitlines(), ""]:
        words = line.strip()
        if block and (not words or words.startswith("|") or _ITEM.match(words)):
            yield " ".join(block)
            block = []
        if words.startswith("|"):
            yield from words.strip("|").split(" | ")
        elif words and (block or not line.startswith("    ")):
            block.append(words)


def sentences(text: str) -> Iterator[str]:
    """A semicolon or a colon ends a sentence, too. The text of a link counts, its target does not; code is one word."""
    for block in blocks(text):
        linked = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", block)
        yield from _END.split(re.sub(r"``?[^`]*``?", "CODE", linked))


@pytest.mark.parametrize("page", PAGES)
def test_sentences_of_a_page_are_short(page: str) -> None:
    text = (TOP / page).read_text(encoding="utf-8")
    assert [one for one in sentences(text) if len(one.split()) > MOST_WORDS] == []


@pytest.mark.parametrize("page", PAGES)
def test_lines_of_prose_are_short(page: str) -> None:
    text = _NO_PROSE.sub("", (TOP / page).read_text(encoding="utf-8"))
    lines = [one for one in text.splitlines() if not one.startswith(("|", "    "))]
    assert [one for one in lines if len(one) > LONGEST_LINE] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page not in {"README.md", "examples/README.md"}])
def test_a_page_opens_with_what_its_reader_can_do(page: str) -> None:
    opening = next(one for one in blocks((TOP / page).read_text(encoding="utf-8")) if not one.startswith("#"))
    assert re.match(r"After (?:reading )?this page you |Use this page to ", opening), opening


def test_long_sentences_are_found_in_paragraphs_lists_and_tables() -> None:
    long = " ".join(["word"] * (MOST_WORDS + 1))
    page = f"# Title\n\n{long}. Short.\n\n* {long}\n  and more.\n\n| a | {long} |\n\n    {long}\n\n```\n{long}\n```\n"
    assert sum(len(one.split()) > MOST_WORDS for one in sentences(page)) == 3
