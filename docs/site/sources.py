"""The sources of the site: the pages of the repository, laid out as they lie there, with links that a site can follow.

On a page any file is named by its path from the top of the repository, or from the page's folder. Here the name of
another page becomes a link to it. A link to a folder leads to the page that lists what is in it, one to any other file
of the repository to a copy of that file.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from os.path import normpath, relpath
from pathlib import Path, PurePosixPath

from docs.generate import state_drawing

PAGES = (
    "docs/*.md",
    "docs/decisions/*.md",
    "docs/proof/*.md",
    "docs/reference/*.md",
    "docs/runbooks/*.md",
    "*.md",
    "examples/README.md",
    "manifests/README.md",
    "manifests/chart/README.md",
    "lab/README.md",
)
INDEX = "docs/site/index.md"
LISTS = {
    "docs/runbooks": "docs/alerts.md",
    "docs/proof": "docs/proof/README.md",
    "docs/decisions": "docs/decisions/README.md",
    "docs/reference": "docs/reference/README.md",
}
"""What is shown for a folder."""

_FENCE = re.compile(r"^\s*(```|~~~)")
_INDENTED = re.compile(r"^ {4,}\S")
_LINK = re.compile(r"\]\(([^)\s#]*)(#[^)\s]*)?\)")
_CODE = re.compile(r"(`+[^`]+`+)")
_NAMED = re.compile(r"(?<![\w./\[-])(?<!\]\()((?:[\w-]+/)*[\w.-]+\.md)(?![\w/])")
_DRAWING = re.compile(r"```mermaid\nstateDiagram-v2\n.*?```", re.DOTALL)


def pages(top: Path) -> list[PurePosixPath]:
    """Every page of the site but its first, as a path from the top of the repository."""
    found = (path for pattern in PAGES for path in sorted(top.glob(pattern)))
    return [PurePosixPath(path.relative_to(top).as_posix()) for path in found]


def lay_out(top: Path, folder: Path) -> list[str]:
    """Write the sources into `folder`. Returns what is wrong: a sentence for each name of a page that is not there."""
    known = {str(page) for page in pages(top)}
    faults: list[str] = []
    for page in known:
        text = (top / page).read_text(encoding="utf-8")
        site_page = _SitePage(top, PurePosixPath(page), known)
        target = folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(site_page.rewritten(text), encoding="utf-8")
        faults += site_page.faults
        for name in site_page.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(top / name, folder / name)
    for listed, page in LISTS.items():
        names = [name for name in known if name.startswith(f"{listed}/") and name != page]
        with (folder / page).open("a", encoding="utf-8") as file:
            file.write(
                "\n".join(["", "```{toctree}", ":hidden:", "", *(f"/{name}" for name in sorted(names)), "```", ""])
            )
    shutil.copyfile(top / INDEX, folder / "index.md")
    return sorted(faults)


class _SitePage:
    """One page: its text, the files that it links to, and the names of pages that are not there."""

    def __init__(self, top: Path, page: PurePosixPath, known: set[str]) -> None:
        self._top, self._page, self._known = top, page, known
        self.files: set[str] = set()
        self.faults: list[str] = []

    def rewritten(self, text: str) -> str:
        """The text of the page on the site."""
        text = _DRAWING.sub(lambda _: f"<div>\n{state_drawing.render()}\n</div>\n\n{state_drawing.table()}", text)
        return "\n".join(self._prose(text.split("\n")))

    def _prose(self, lines: list[str]) -> Iterator[str]:
        """The lines, those of code as they are."""
        fenced, blank = False, True
        code = False
        for line in lines:
            if _FENCE.match(line):
                fenced = not fenced
            code = bool(_INDENTED.match(line)) and (blank or code)
            blank = not line.strip()
            if fenced or code or _FENCE.match(line):
                yield line
            else:
                yield "".join(map(self._words, _CODE.split(line)))

    def _words(self, words: str) -> str:
        """A part of a line: code in backticks, or what stands between."""
        if not words.startswith("`"):
            return _LINK.sub(self._link, _NAMED.sub(self._name, words))
        name = _NAMED.fullmatch(words.strip("`"))
        return self._name(name, words) if name else words

    def _name(self, said: re.Match[str], written: str = "") -> str:
        name = said[0]
        found = self._found(name)
        if found is None:
            # A bare file name may belong to another project; one with a folder names a file of this repository.
            if "/" in name and not (self._top / name).is_file():
                self.faults.append(f"{self._page} names {name}, which is not there")
            return written or name
        return f"[{name}]({self._way(found)})"

    def _link(self, said: re.Match[str]) -> str:
        path, anchor = said[1], said[2] or ""
        if not path or ":" in path:
            return said[0]
        target = normpath(str(self._page.parent / path))
        target = LISTS.get(target, target)
        if target not in self._known and (self._top / target).is_file():
            self.files.add(target)
        return f"]({self._way(target)}{anchor})"

    def _found(self, name: str) -> str | None:
        """The page that is meant by a name: from the top of the repository, else from the folder of this page."""
        beside = normpath(str(self._page.parent / name))
        return next((one for one in (name, beside) if one in self._known), None)

    def _way(self, target: str) -> str:
        return PurePosixPath(relpath(target, str(self._page.parent) or ".")).as_posix()
