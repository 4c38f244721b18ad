"""The process that serves loads no library that only other commands use."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import extender.cli.program, extender.server.process
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"cryptography", "jwt"}))
"""


def test_serve_loads_no_cryptography() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []
