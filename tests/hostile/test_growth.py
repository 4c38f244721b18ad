"""No text of a stranger takes more than proportional time, or much memory, wherever it is read."""

import json
import subprocess
import sys
from pathlib import Path

from extender.domain.translation.settings import SETTINGS

TOP = Path(__file__).parents[2]


def test_every_reader_of_a_strangers_text_takes_proportional_time_and_bounded_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.builders.growth"], cwd=TOP, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *offences, summary = map(json.loads, done.stdout.splitlines())
    assert offences == []
    assert summary["readers"] > len(SETTINGS) + 30
