"""`python -m bench`: run every measurement and write its result."""

from __future__ import annotations

from collections.abc import Callable

from bench import filter as filter_bench
from bench.figures import write

BENCHES: dict[str, Callable[[], dict[str, object]]] = {"filter": filter_bench.run}


def main() -> None:
    """Measure, print and write."""
    for name, run in BENCHES.items():
        result = run()
        write(name, result)
        print(f"{name}: {result['ours_ms']:.2f} ms, floor {result['floor_ms']:.2f} ms, ratio {result['ratio']:.2f}")


if __name__ == "__main__":
    main()
