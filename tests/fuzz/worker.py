"""`python -m tests.fuzz.worker TARGET FOLDER [OPTION ...]`: fuzz one target, guided by the lines that it reaches.

Runs as a program of its own, because libFuzzer ends the process. `FOLDER` holds what is worth trying again, the
options are libFuzzer's.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> None:
    """Fuzz until libFuzzer ends the process: after the time that it was given, or at the first finding."""
    name, folder, *options = sys.argv[1:]
    atheris = importlib.import_module("atheris")  # installed for this alone, from a lock file of its own
    with atheris.instrument_imports(include=["extender", "slurmclient"]):
        targets = importlib.import_module("tests.fuzz.targets")
    fuzzed = targets.TARGETS[name]
    corpus = Path(folder)
    for number, seed in enumerate(fuzzed.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], *options, str(corpus)], fuzzed.act)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
