"""Figures of many rounds: what is quoted, how far rounds lie apart, and how they are written down."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, max(0, -(-int(share * 1_000_000) * len(ranked) // 1_000_000) - 1))]


def summary(rounds: Sequence[Sequence[float]]) -> dict[str, object]:
    """Median and p99 of all values, and how the rounds' own medians lie apart."""
    values = [value for one in rounds for value in one]
    medians = [statistics.median(one) for one in rounds]
    return {
        "p50": statistics.median(values),
        "p99": quantile(values, 0.99),
        "most": max(values),
        "count": len(values),
        "median_of_each_round": medians,
    }


def ratio(ours: Mapping[str, Any], floor: Mapping[str, Any], key: str) -> float:
    """Of one figure of two summaries."""
    return float(ours[key]) / float(floor[key])


def write(name: str, result: Mapping[str, object]) -> Path:
    """Write `bench/results/NAME.json`, with the machine and the day; where it is."""
    said = dict(result)
    said["machine"] = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    said["date"] = datetime.now(UTC).strftime("%Y-%m-%d")  # noqa: TID251 - a report says when it was made
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    return path
