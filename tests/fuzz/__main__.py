"""`python -m tests.fuzz [--seconds N] [--report FILE] [TARGET ...]`: fuzz what reads the text of strangers.

Each target runs in a process of its own with a limit of memory and of time for each input. Inputs are changed at random
and kept where they reach new lines (libFuzzer by way of atheris). Fails, and prints the input, where a promise breaks.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from tests.fuzz.targets import TARGETS

TOP = Path(__file__).parents[2]
SECONDS = 60
MEMORY_MB = 1024
INPUT_S = 5
"""Seconds that one input may take: with the instrumentation, everything takes some ten times as long."""

LONGEST = 8192
"""Bytes of an input. What grows with the length is measured by `tests/hostile/test_growth.py`."""

_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_MEMORY = re.compile(r"stat::peak_rss_mb:\s*(\d+)")
_COVERED = re.compile(r"\bcov: (\d+)")


@dataclass(frozen=True, slots=True)
class Fuzzing:
    """What came of one target."""

    name: str
    inputs: int
    covered: int
    """Places of the code that were reached: edges between lines."""

    at_first: int
    """Those that the inputs to begin with reach."""

    memory_mb: int
    finding: str = ""


def fuzz(name: str, seconds: int) -> Fuzzing:
    """Fuzz one target for so long."""
    with tempfile.TemporaryDirectory() as folder:
        options = [
            f"-max_total_time={seconds}",
            f"-rss_limit_mb={MEMORY_MB}",
            f"-timeout={INPUT_S}",
            f"-max_len={LONGEST}",
            f"-artifact_prefix={folder}/found-",
            "-print_final_stats=1",
            "-seed=1",
        ]
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        command = [sys.executable, "-m", "tests.fuzz.worker", name, str(corpus), *options]
        done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, errors="replace", check=False)
        said = done.stderr + done.stdout
        found = sorted(Path(folder).glob("found-*"))
        finding = ""
        if done.returncode:
            told = "\n".join(line for line in said.splitlines() if not line.startswith("INFO: "))
            finding = f"{told[-3000:]}\ninput: {found[0].read_bytes() if found else b'none was kept'!r}"
    covered = [int(one) for one in _COVERED.findall(said)]
    return Fuzzing(
        name,
        _number(_EXECUTED, said),
        max(covered, default=0),
        min(covered, default=0),
        _number(_MEMORY, said),
        finding,
    )


def report(fuzzed: list[Fuzzing], seconds: int) -> str:
    """What was tried, as Markdown."""
    day = f"{datetime.now(UTC):%Y-%m-%d}"  # noqa: TID251 - a report says when it was made
    lines = [
        "# Hostile input",
        "",
        "<!-- Written by `python -m tests.fuzz --report`. -->",
        "",
        f"Inputs of each target for {seconds} s on {day}: they begin with valid ones, are changed at random, and are",
        "kept where they reach new places of the code. An input that takes more than",
        f"{INPUT_S} s or {MEMORY_MB} MiB is a finding, and so is what a reader raises besides its own errors.",
        "`tests/fuzz/targets.py` has the targets; `make test` tries the inputs to begin with.",
        "",
        "| what reads | promise | inputs | places reached at first | at last | MiB | findings |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in fuzzed:
        promise = TARGETS[one.name].promise
        found = "**yes**" if one.finding else "none"
        seen = f"{one.inputs:,} | {one.at_first:,} | {one.covered:,} | {one.memory_mb}"
        lines.append(f"| {one.name} | {promise} | {seen} | {found} |")
    return "\n".join(lines) + "\n"


def _number(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return int(found[1]) if found else 0


def main() -> None:
    """Fuzz, print, and fail where there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each target")
    parser.add_argument("--report", type=Path, help="where to write the report, besides printing it")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; none: all")
    options = parser.parse_args()
    structlog.configure(processors=[], logger_factory=structlog.ReturnLoggerFactory())
    if unknown := set(options.targets) - TARGETS.keys():
        parser.error(f"no target {', '.join(sorted(unknown))}")
    fuzzed = []
    for name in options.targets or TARGETS:
        fuzzed.append(fuzz(name, options.seconds))
        print(f"{name}: {fuzzed[-1].inputs:,} inputs", fuzzed[-1].finding, flush=True)
    text = report(fuzzed, options.seconds)
    print(text)
    if options.report:
        options.report.write_text(text, encoding="utf-8")
    if any(one.finding for one in fuzzed):
        sys.exit(1)


if __name__ == "__main__":
    main()
