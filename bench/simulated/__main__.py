"""`python -m bench.simulated [--quick] [--rounds N] [NAME ...]`: measure beside simulators, write the results."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from bench.figures import write
from bench.simulated.crowded import measure_crowded, measure_flat
from lab.clock import elapsed

Json = dict[str, Any]


async def _crowded(quick: bool, rounds: int) -> Json:
    del rounds
    return await (measure_crowded(50, 100, 100, 3) if quick else measure_crowded(5000, 10_000, 10_000, 20))


async def _flat(quick: bool, rounds: int) -> Json:
    return await (measure_flat((1, 2), 5, 10, 1) if quick else measure_flat((1, 2, 4, 8), 50, 200, rounds or 2))


MEASUREMENTS: Mapping[str, Callable[[bool, int], Coroutine[None, None, Json]]] = {"crowded": _crowded, "flat": _flat}


def main() -> None:
    """Everything that is asked for, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m bench.simulated", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small: shows that it runs, and writes nothing")
    parser.add_argument("--rounds", type=int, default=0, help="of `flat`, in place of the usual 2")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASUREMENTS)}; none: all")
    options = parser.parse_args()
    unknown = set(options.names) - MEASUREMENTS.keys()
    if unknown:
        parser.error(f"no measurement {', '.join(sorted(unknown))}; there are {', '.join(MEASUREMENTS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # in order: no process is left
    for name in [one for one in MEASUREMENTS if not options.names or one in options.names]:
        began = elapsed()
        result: Json = asyncio.run(MEASUREMENTS[name](options.quick, options.rounds))
        result |= {"took_s": round(elapsed() - began), "command": f"python -m bench.simulated {name}"}
        result |= {"parts": "simulated Slurm and API server"}
        print(name, result if options.quick else write(name, result), flush=True)


if __name__ == "__main__":
    main()
