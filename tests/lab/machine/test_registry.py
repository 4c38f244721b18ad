"""Labs are found again, and only the very process that was started is ever ended."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import registry
from lab.registry import ProcessName, RunningLab, process_name


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLURM_EXTENDER_LAB_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def test_a_lab_is_listed_while_it_runs(tmp_path: Path, bystander: subprocess.Popen[bytes]) -> None:
    with registry.entered("slurm 24.11.5", bystander.pid, tmp_path, tmp_path, temporary=False):
        [lab] = registry.running()
        assert (lab.what, lab.runner.pid, lab.init.pid) == ("slurm 24.11.5", os.getpid(), bystander.pid)
    assert registry.running() == []


def test_a_recycled_pid_is_not_the_process_that_was_started(bystander: subprocess.Popen[bytes]) -> None:
    before = process_name(bystander.pid)
    assert before is not None
    earlier_owner = ProcessName(before.pid, before.start_ticks - 1)
    assert before.alive
    assert not earlier_owner.alive


def test_ending_a_lab_whose_pids_were_given_to_others_hurts_no_process(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    name = process_name(bystander.pid)
    assert name is not None
    gone = ProcessName(name.pid, name.start_ticks - 1)
    registry.end(RunningLab("slurm", gone, gone, str(tmp_path), "/", temporary=False))
    assert bystander.poll() is None


def test_what_a_killed_lab_left_is_removed_but_never_a_folder_of_the_caller(tmp_path: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as init:
        for kind in ("temporary", "callers"):
            home = tmp_path / kind / "slurm"
            home.mkdir(parents=True)
            entry = registry.entered("slurm", init.pid, home, tmp_path, temporary=kind == "temporary")
            with entry:
                folder = tmp_path / "cache" / "running"
                [path] = folder.glob(f"{init.pid}-*.json")
                text = path.read_text()
            (folder / f"{kind}.json").write_text(text)

    assert registry.running() == []
    assert not (tmp_path / "temporary").exists()
    assert (tmp_path / "callers").exists()
    assert list(folder.glob("*.json")) == []


def test_an_entry_of_another_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "running" / "other.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"what": "slurm"}')
    assert registry.running() == []
    assert path.exists()
