"""Two checkouts are compared by the ratios of their figures, in turn."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.compare_speed import FIGURES, Figure, compare, interval

BASELINE, CHANGED = Path("baseline"), Path("changed")


def test_each_pair_runs_both_checkouts_and_the_first_one_changes() -> None:
    ran: list[Path] = []

    def measure(checkout: Path, _name: str) -> Mapping[str, Any]:
        ran.append(checkout)
        return {"ratio_p50": 1.5 if checkout is CHANGED else 1.0}

    ratios = compare((BASELINE, CHANGED), "placing-external", 3, measure)

    assert ran == [BASELINE, CHANGED, CHANGED, BASELINE, BASELINE, CHANGED]
    assert ratios == {FIGURES["placing-external"][0]: [1.5, 1.5, 1.5]}


def test_a_rate_that_falls_counts_as_slower() -> None:
    [rate] = FIGURES["burst-300"]
    assert rate.of({"median_per_s": {"slurm": 50.0}}) / rate.of({"median_per_s": {"slurm": 60.0}}) == pytest.approx(1.2)


def test_the_interval_holds_the_median_and_narrows_with_agreement() -> None:
    wide = interval([0.9, 1.0, 1.1, 1.0, 0.95, 1.05], random.Random(0))
    narrow = interval([1.0, 1.0, 1.01, 1.0, 1.0, 1.0], random.Random(0))
    assert wide[1] <= wide[0] <= wide[2]
    assert narrow[2] - narrow[1] < wide[2] - wide[1]


def test_a_figure_that_a_result_lacks_is_an_error() -> None:
    with pytest.raises(KeyError):
        Figure("cpu.most", 1.0).of({"cpu": {}})


def test_results_of_older_checkouts_have_other_keys() -> None:
    figure = Figure("cpu.requests", 1.0, older="cpu.calls")
    assert figure.of({"cpu": {"requests": 2}}) == figure.of({"cpu": {"calls": 2}}) == 2.0
    with pytest.raises(KeyError, match="calls"):
        figure.of({"cpu": {}})
