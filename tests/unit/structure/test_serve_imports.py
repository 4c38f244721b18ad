"""The process that serves loads no library that only other commands use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import extender.cli.program, extender.server.process
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"cryptography", "jwt"}))
"""

MINTS_A_TOKEN = """
import sys
sys.modules["cryptography"] = None
from slurmclient.auth import MintedToken
print(MintedToken(sys.argv[1], "root").token().count("."))
"""


def test_serve_loads_no_cryptography() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


def test_a_token_is_minted_from_a_key_without_cryptography(tmp_path: Path) -> None:
    key = tmp_path / "jwt.key"
    key.write_bytes(b"k" * 32)
    words = [sys.executable, "-c", MINTS_A_TOKEN, str(key)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "2"
