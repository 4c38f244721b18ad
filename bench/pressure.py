"""Many Pods at once against slow, refusing and throttling partners, in the simulator on virtual time.

`seconds` are virtual: what requests, pauses and back-offs take. What it costs to compute is `cpu_s`, and `rss_mb` is
the largest that the process was, the simulated cluster included; each case is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import subprocess
import sys
import time

import structlog

from bench.figures import write
from bench.simulated.load import DEGRADATIONS, run_load_test
from simulator.virtual_time import run_virtual

CASES = (
    ("nothing", 200, 0),
    ("slow", 200, 0),
    ("refusing", 200, 0),
    ("throttling", 200, 0),
    ("mute", 200, 0),
    ("slow", 48, 48),
    ("nothing", 500, 500),
    ("nothing", 2000, 0),
)
"""Strain, new Pods, Pods that are deleted at the same time."""


def one(strain: str, new: int, old: int) -> dict[str, object]:
    """Bear one strain in this process."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    began = time.process_time()
    borne = run_virtual(run_load_test(DEGRADATIONS[strain], new, old))
    return {
        "strain": DEGRADATIONS[strain].__doc__,
        "new": new,
        "deleted": old,
        "seconds": borne.shown(),
        "cpu_s": round(time.process_time() - began, 1),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Bear all, each in a process of its own, and write what came of it so far after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=3, metavar=("STRAIN", "NEW", "DELETED"))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one[0], int(options.one[1]), int(options.one[2]))))
        return
    found: dict[str, object] = {
        "command": "python -m bench.pressure",
    }
    cases: list[object] = []
    for strain, new, old in CASES:
        command = [sys.executable, "-m", "bench.pressure", "--one", strain, str(new), str(old)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        cases.append(json.loads(done.stdout.splitlines()[-1]))
        print(strain, done.stdout.splitlines()[-1], flush=True)
        write("pressure", {**found, "cases": cases})


if __name__ == "__main__":
    main()
