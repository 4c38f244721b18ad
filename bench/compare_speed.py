"""Compare the speed of two checkouts: run the same measurement in both, in turn, and print the ratio of each figure.

    python -m bench.compare_speed BASELINE CHANGED [--pairs 10] [NAME ...]

Each pair runs `python -m bench.real NAME --rounds 1` (or `bench.simulated`) once in either checkout, with that
checkout's `.venv/bin/python`, and reads `bench/results/NAME.json` there; the files are restored afterwards. The
baseline goes first in every second pair, so that a drift of the machine favours neither. The printed interval is the
95 % bootstrap interval of the median of the ratios CHANGED / BASELINE. Exits with 1 if a figure misses its bound:
its upper end may be at most 1.03 for CPU seconds and counts of calls, and 1.10 for times.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DRAWS = 2000
"""Resamples of the bootstrap: its interval no longer changes in the second digit."""

CPU = 1.03
TIME = 1.10


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a result: the keys that lead to it, and how much larger it may become."""

    path: str
    bound: float
    inverse: bool = False
    """Larger is better: its reciprocal is compared."""

    older: str = ""
    """The keys in results of older checkouts, if they have others."""

    def of(self, result: Mapping[str, Any]) -> float:
        """Return the number. Raises `KeyError` if the result lacks it."""
        try:
            value = _at(result, self.path)
        except KeyError:
            if not self.older:
                raise
            value = _at(result, self.older)
        return 1.0 / value if self.inverse else value


def _at(result: Mapping[str, Any], path: str) -> float:
    value: Any = result
    for key in path.split("."):
        value = value[key]
    return float(value)


FIGURES: Mapping[str, tuple[Figure, ...]] = {
    "cost": (
        Figure("at_once.cpu_ms_per_pod", CPU),
        Figure("at_once.requests_per_pod", CPU, older="at_once.asked_per_pod"),
        Figure("at_once.writes_per_pod", CPU),
        Figure("waited.cpu_ms_per_pod", CPU),
        Figure("waited.requests_per_pod", CPU, older="waited.asked_per_pod"),
    ),
    "placing-external": (Figure("ratio_p50", TIME),),
    "placing-allocation": (Figure("ratio_p50", TIME),),
    "burst-300": (Figure("median_per_s.slurm", TIME, inverse=True),),
    "waiting": (
        Figure("gated.cpu_s", CPU),
        Figure("ungated.cpu_s", CPU),
        Figure("gated.requests", CPU, older="gated.asked"),
    ),
    "crowded": (Figure("filter_s.p99", TIME), Figure("rss_mb", CPU), Figure("ready_s", TIME)),
    "flat": (Figure("most_to_least", TIME),),
}
SIMULATED = frozenset({"crowded", "flat"})


def interval(ratios: Sequence[float], rng: random.Random) -> tuple[float, float, float]:
    """Return the median of the ratios and its 95 % bootstrap interval: (median, lower, upper)."""
    drawn = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    return statistics.median(ratios), drawn[int(DRAWS * 0.025)], drawn[int(DRAWS * 0.975)]


def measured(checkout: Path, name: str) -> Mapping[str, Any]:
    """Run one round of a measurement in a checkout. Raises `RuntimeError` if it wrote no result."""
    module = "bench.simulated" if name in SIMULATED else "bench.real"
    options = [] if name in SIMULATED else ["--rounds", "1"]
    result = checkout / "bench" / "results" / f"{name}.json"
    before = result.read_bytes() if result.exists() else None
    result.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            [checkout / ".venv/bin/python", "-m", module, *options, name],
            cwd=checkout,
            capture_output=True,
            text=True,
            check=False,
        )
        if not result.exists():
            raise RuntimeError(f"{module} {name} in {checkout} wrote no result:\n{done.stdout}{done.stderr}")
        found: Mapping[str, Any] = json.loads(result.read_bytes())
        return found
    finally:
        if before is not None:
            result.write_bytes(before)


def compare(
    checkouts: tuple[Path, Path], name: str, pairs: int, measure: Callable[[Path, str], Mapping[str, Any]] = measured
) -> dict[Figure, list[float]]:
    """Return the ratios of each figure of one measurement, a pair after the other."""
    ratios: dict[Figure, list[float]] = {figure: [] for figure in FIGURES[name]}
    for pair in range(pairs):
        order = checkouts if pair % 2 == 0 else checkouts[::-1]
        results = {checkout: measure(checkout, name) for checkout in order}
        for figure, found in ratios.items():
            found.append(figure.of(results[checkouts[1]]) / figure.of(results[checkouts[0]]))
    return ratios


def main() -> None:
    """Print a row for each figure."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare_speed", description=__doc__)
    parser.add_argument("baseline", type=Path)
    parser.add_argument("changed", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(FIGURES), help=f"of {', '.join(FIGURES)}")
    parser.add_argument("--pairs", type=int, default=10)
    options = parser.parse_intermixed_args()
    if unknown := set(options.names) - FIGURES.keys():
        parser.error(f"no measurement {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    missed = False
    print("| measurement | figure | changed / baseline | 95 % interval | bound | held |\n|---|---|---|---|---|---|")
    for name in options.names:
        ratios = compare((options.baseline.resolve(), options.changed.resolve()), name, options.pairs)
        for figure, found in ratios.items():
            middle, low, high = interval(found, random.Random(0))
            missed |= high > figure.bound
            held = "yes" if high <= figure.bound else "no"
            print(
                f"| {name} | {figure.path} | {middle:.3f} | {low:.3f} to {high:.3f} | {figure.bound} | {held} |",
                flush=True,
            )
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
