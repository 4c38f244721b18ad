"""A pytest plugin that writes what a run on the real parts showed: `pytest -p lab.proof --proof docs/proof/placing.md`.

The report names date, versions, counts and every case; it is written whatever came out, failures included. A second
run with `--last-failed` adds its outcomes to those of the first: a case that failed and then passed has both.
With `--proof-part` the tables alone replace what is between two marks of a page that is written by hand, and only where
every case passed.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from docs.generate.marked import renewed
from lab.build_kubernetes import is_built as is_kubernetes_built
from lab.build_kubernetes import kubernetes_build, kubernetes_minors, kwok_build, proved_minors
from lab.build_slurm import RELEASES, build, is_built, slurm_version

TABLE = "table: "
BEGIN = "<!-- Written by `lab.proof`. -->"
END = "<!-- End of what `lab.proof` wrote. -->"


class Proof:
    """Collect outcomes, and write the page at the end. `earlier` is the result of the run before, `as_json()`.

    `part`: the page exists, and gets the tables between its two marks.
    """

    def __init__(self, page: Path, earlier: Mapping[str, Any] | None = None, *, part: bool = False) -> None:
        self._page = page
        self._part = part
        self._today = f"{datetime.now(UTC):%Y-%m-%d}"  # noqa: TID251 - a report says when it was made
        earlier = earlier or {}
        self._before: dict[str, str] = dict(earlier.get("outcomes", {}))
        self._outcomes: dict[str, str] = {}
        self._seconds: dict[str, float] = dict(earlier.get("seconds", {}))
        self._tables: dict[str, list[Mapping[str, str]]] = dict(earlier.get("tables", {}))

    def as_json(self) -> dict[str, Any]:
        """Return what the next run continues."""
        return {"outcomes": self._all(), "seconds": self._seconds, "tables": self._tables}

    def _all(self) -> dict[str, str]:
        """Return the outcome of each case; of one that ran twice, both."""
        twice = {
            case: f"{self._before[case]}, then {outcome}"
            for case, outcome in self._outcomes.items()
            if case in self._before
        }
        return self._before | self._outcomes | twice

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record one phase of one test: a failing set-up or tear-down counts as a failure of the test."""
        case = report.nodeid
        self._seconds[case] = self._seconds.get(case, 0.0) + report.duration
        for name, row in report.user_properties if report.when == "teardown" else ():
            if name.startswith(TABLE):  # a row of a table, from the test's `record_property`
                self._tables.setdefault(name.removeprefix(TABLE), []).append(cast(Mapping[str, str], row))
        if report.when == "call" or report.failed:
            worst = "failed" if "failed" in (report.outcome, self._outcomes.get(case)) else report.outcome
            self._outcomes[case] = worst

    def pytest_sessionfinish(self) -> None:
        """Write the page."""
        if self._part:
            if self._tables and set(self._all().values()) == {"passed"}:
                text = self._page.read_text(encoding="utf-8")
                tables = "\n".join(self._tables_alone())
                self._page.write_text(renewed(text, self._page, BEGIN, END, tables), encoding="utf-8")
        elif self._all():
            self._page.parent.mkdir(parents=True, exist_ok=True)
            self._page.write_text("\n".join(self._lines()) + "\n", encoding="utf-8")

    def _lines(self) -> Iterable[str]:
        outcomes = self._all()
        counts = Counter(outcomes.values())
        yield "# Shown on the real parts"
        yield ""
        yield f"{self._today}: {', '.join(f'{n} {outcome}' for outcome, n in sorted(counts.items()))}."
        yield f"{'; '.join(_versions())}."
        yield "Made by `make prove`. Seconds are of a shared machine with two cores: they inform, they promise nothing."
        yield ""
        yield from self._titled()
        if self._tables:
            yield "## Cases"
            yield ""
        yield "| case | outcome | seconds |"
        yield "|---|---|---|"
        for case, outcome in sorted(outcomes.items()):
            yield f"| `{case.replace('|', chr(92) + '|')}` | {outcome} | {self._seconds[case]:.1f} |"

    def _titled(self) -> Iterable[str]:
        for title, rows in self._tables.items():
            yield f"## {title}"
            yield ""
            yield from _table(rows)
            yield ""

    def _tables_alone(self) -> Iterable[str]:
        """Yield a part of a page: the tables, when they were made and with what."""
        yield ""
        yield f"{self._today}: {'; '.join(_versions())}. Seconds are of a shared machine with two cores."
        yield ""
        for rows in self._tables.values():
            yield from _table(rows)
            yield ""


def _table(rows: Sequence[Mapping[str, str]]) -> Iterable[str]:
    yield f"| {' | '.join(rows[0])} |"
    yield f"|{'---|' * len(rows[0])}"
    for row in rows:
        yield f"| {' | '.join(row.values())} |"


def _versions() -> Iterable[str]:
    for release in RELEASES.values():
        if is_built(release):
            yield f"Slurm {slurm_version(build(release))}"
    for minor in (*kubernetes_minors(), *proved_minors()):
        if minor in kubernetes_minors() or is_kubernetes_built(kubernetes_build(minor)):
            yield f"Kubernetes {kubernetes_build(minor).name.removeprefix('kubernetes-v')}"
    yield f"kwok {kwok_build().name.removeprefix('kwok-v')}"
    yield f"Python {platform.python_version()}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--proof PAGE`."""
    parser.addoption("--proof", type=Path, default=None, help="write a report of this run to this Markdown page")
    parser.addoption("--proof-part", type=Path, default=None, help="write the tables of this run into this page")


def pytest_configure(config: pytest.Config) -> None:
    """Report if asked to."""
    whole, part = config.getoption("--proof"), config.getoption("--proof-part")
    page = whole or part
    # With pytest-xdist the process that starts the others receives all outcomes; it alone has no `workerinput`.
    if page is None or hasattr(config, "workerinput"):
        return
    key, cache = f"proof/{Path(page).stem}", config.cache
    assert cache is not None  # pytest's own plugin, loaded before
    proof = Proof(page, cache.get(key, None) if config.getoption("lf") else None, part=whole is None)
    config.pluginmanager.register(proof)
    config.add_cleanup(lambda: cache.set(key, proof.as_json()))
