"""Make a site of the pages: `python -m docs.site [FOLDER [REPOSITORY]]`; by default in build/site, of this repository.

A link to a page, a heading or a file that is not there ends it with exit code 1, as does a page that no list names.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

from docs.site.sources import lay_out

TOP = Path(__file__).parents[2]


def build(folder: Path, top: Path) -> int:
    """Write the site of `top` into `folder`/html; returns 0, or 1 where something is wrong, which is printed."""
    sources, doctrees, html = (folder / part for part in ("sources", "doctrees", "html"))
    for part in (sources, doctrees, html):
        shutil.rmtree(part, ignore_errors=True)
    faults = lay_out(top, sources)
    for fault in faults:
        print(fault, file=sys.stderr)
    arguments = ["-q", "-n", "-W", "--keep-going", "-c", str(TOP / "docs/site")]
    failed = build_main([*arguments, "-d", str(doctrees), str(sources), str(html)])
    for schema in (top / "docs/reference").glob("*.schema.json"):  # under the name that an editor is given
        shutil.copyfile(schema, html / "docs/reference" / schema.name)
    return 1 if faults or failed else 0


if __name__ == "__main__":
    said = [Path(one) for one in sys.argv[1:]]
    sys.exit(build(said[0] if said else Path("build/site"), said[1] if said[1:] else TOP))
