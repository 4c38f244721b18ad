"""The report of a run on the real parts: every case, the worst of its phases, failures included."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal, cast

import pytest

from lab.proof import BEGIN, END, Proof

Outcome = Literal["passed", "failed", "skipped"]
When = Literal["setup", "call", "teardown"]


def a_report(case: str, outcome: Outcome, when: When, seconds: float) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=case,
        location=("", None, ""),
        keywords={},
        outcome=outcome,
        longrepr=None,
        when=when,
        duration=seconds,
    )


def test_every_case_stands_in_the_report_with_its_worst_phase(tmp_path: Path) -> None:
    page = tmp_path / "proof" / "page.md"
    proof = Proof(page)
    phases: list[tuple[str, Outcome, When]] = [
        ("t.py::good[26.05]", "passed", "setup"),
        ("t.py::good[26.05]", "passed", "call"),
        ("t.py::good[26.05]", "passed", "teardown"),
        ("t.py::dirty", "passed", "call"),
        ("t.py::dirty", "failed", "teardown"),
        ("t.py::never", "failed", "setup"),
    ]
    for case, outcome, when in phases:
        proof.pytest_runtest_logreport(a_report(case, outcome, when, 0.5))
    proof.pytest_sessionfinish()
    text = page.read_text()
    assert "2 failed, 1 passed." in text
    assert "| `t.py::good[26.05]` | passed | 1.5 |" in text
    assert "| `t.py::dirty` | failed | 1.0 |" in text
    assert "| `t.py::never` | failed | 0.5 |" in text


def test_a_case_that_failed_and_then_passed_has_both_outcomes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    first = Proof(page)
    for case, outcome in (("t.py::good", "passed"), ("t.py::now_and_then", "failed"), ("t.py::bad", "failed")):
        first.pytest_runtest_logreport(a_report(case, cast(Outcome, outcome), "call", 0.5))
    second = Proof(page, first.as_json())
    second.pytest_runtest_logreport(a_report("t.py::now_and_then", "passed", "call", 1.0))
    second.pytest_runtest_logreport(a_report("t.py::bad", "failed", "call", 0.5))
    second.pytest_sessionfinish()
    text = page.read_text()
    assert "1 failed, then failed, 1 failed, then passed, 1 passed." in text
    assert "| `t.py::good` | passed | 0.5 |" in text
    assert "| `t.py::now_and_then` | failed, then passed | 1.5 |" in text


@pytest.mark.parametrize("processes", [(), ("--numprocesses", "2")], ids=["one process", "two processes"])
def test_a_second_run_of_what_failed_completes_the_page(tmp_path: Path, processes: tuple[str, ...]) -> None:
    test = tmp_path / "test_once.py"
    test.write_text(
        "from pathlib import Path\n"
        "def test_good(): pass\n"
        "def test_second(record_property):\n"
        "    record_property('table: Rows', {'row': 'one'})\n"
        "    mark = Path(__file__).with_name('mark')\n"
        "    was = mark.exists()\n"
        "    mark.touch()\n"
        "    assert was\n"
    )
    page = tmp_path / "page.md"
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", str(tmp_path), *processes]
    command += ["-p", "lab.proof", "--proof", str(page), "-o", f"cache_dir={tmp_path / 'cache'}", str(test)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    assert "1 failed, 1 passed." in page.read_text()
    assert subprocess.run([*command, "--last-failed"], capture_output=True, check=False).returncode == 0
    text = page.read_text()
    assert "1 failed, then passed, 1 passed." in text
    assert text.count("| one |") == 2


def test_a_run_without_cases_writes_nothing(tmp_path: Path) -> None:
    Proof(tmp_path / "page.md").pytest_sessionfinish()
    assert list(tmp_path.iterdir()) == []


def test_rows_that_tests_record_stand_in_one_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    proof = Proof(page)
    for mode in ("batch", "external"):
        for when in ("call", "teardown"):
            report = a_report(f"t.py::ends[{mode}]", "passed", when, 0.5)
            report.user_properties = [("table: Ends", {"mode": mode, "overlaps": "0"}), ("something else", 1)]
            proof.pytest_runtest_logreport(report)
    proof.pytest_sessionfinish()
    text = page.read_text()
    assert "## Ends\n\n| mode | overlaps |\n|---|---|\n| batch | 0 |\n| external | 0 |\n\n## Cases\n" in text


@pytest.mark.parametrize("outcome", ["passed", "failed"])
def test_tables_are_written_into_a_page_only_where_every_case_passed(
    tmp_path: Path, outcome: Literal["passed", "failed"]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# By hand\n\n{BEGIN}\nold\n{END}\n\nAlso by hand.\n")
    proof = Proof(page, part=True)
    proof.pytest_runtest_logreport(a_report("t.py::walk", outcome, "call", 0.5))
    report = a_report("t.py::walk", "passed", "teardown", 0.1)
    report.user_properties = [("table: Steps", {"step": "install", "seconds": "4.0"})]
    proof.pytest_runtest_logreport(report)
    proof.pytest_sessionfinish()
    text = page.read_text()
    assert text.startswith("# By hand\n")
    assert text.endswith("Also by hand.\n")
    assert ("| install | 4.0 |" in text) == (outcome == "passed")
    assert ("\nold\n" in text) == (outcome == "failed")
