"""`python -m bench`: run every measurement and write its result."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from bench import filter as filter_bench

RESULTS = Path(__file__).parent / "results"
BENCHES: dict[str, Callable[[], dict[str, object]]] = {"filter": filter_bench.run}


def main() -> None:
    """Measure, print and write."""
    for name, run in BENCHES.items():
        result = run()
        result["machine"] = f"{platform.machine()}, Python {platform.python_version()}"
        result["date"] = datetime.now(UTC).strftime("%Y-%m-%d")  # noqa: TID251 - a report says when it was made
        (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        print(f"{name}: {result['ours_ms']:.2f} ms, floor {result['floor_ms']:.2f} ms, ratio {result['ratio']:.2f}")


if __name__ == "__main__":
    main()
