"""A builder's command ends with the builder."""

import subprocess
import sys
from pathlib import Path

import pytest

from lab.clock import wait_until
from lab.command import run_bound
from lab.errors import LabError
from lab.registry import process_name

BUILDER = """
import sys
from lab.command import run_bound
run_bound(["sh", "-c", "echo $$; echo $$ > pid.partial; mv pid.partial pid; exec sleep 1000"], "a build")
"""


def test_a_command_does_not_outlive_a_builder_that_is_killed(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    pid = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", BUILDER], cwd=tmp_path, env={"PYTHONPATH": str(root)}) as builder:
        wait_until(pid.exists, "the command runs", timeout_s=120)
        command = process_name(int(pid.read_text()))
        assert command is not None
        builder.kill()
    wait_until(lambda: not command.alive, "the command is gone", timeout_s=120)


def test_a_command_that_fails_gives_its_last_words() -> None:
    with pytest.raises(LabError, match=r"(?s)a build failed \(3\):.*no space left"):
        run_bound(["sh", "-c", "echo no space left >&2; exit 3"], "a build")
