"""Make a site of the pages: `python -m docs.site [FOLDER]`, from the top of the repository; by default in build/site.

A link to a page, a heading or a file that is not there ends it with exit code 1, as does a page that no list names.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

from docs.site.sources import lay_out

TOP = Path(__file__).parents[2]


def build(folder: Path) -> int:
    """Write the site into `folder`/html; returns 0, or 1 where something is wrong, which is printed."""
    sources = folder / "sources"
    shutil.rmtree(folder, ignore_errors=True)
    faults = lay_out(TOP, sources)
    for fault in faults:
        print(fault, file=sys.stderr)
    arguments = ["-q", "-n", "-W", "--keep-going", "-c", str(TOP / "docs/site")]
    failed = build_main([*arguments, "-d", str(folder / "doctrees"), str(sources), str(folder / "html")])
    for schema in (TOP / "docs").glob("*.schema.json"):  # under the name that an editor is given
        shutil.copy(schema, folder / "html/docs")
    return 1 if faults or failed else 0


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1] if len(sys.argv) > 1 else "build/site")))
