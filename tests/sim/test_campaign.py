"""Many seeds in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from simulator import campaign
from simulator.campaign import SeedResult, run_seeds
from simulator.options import Options

GENEROUS_S = 300
"""For processes that import all of the simulator, on a machine that has other work."""

SMALL = [Options(seed, pods=1, days=0.0002, faults=frozenset()) for seed in range(3)]


def test_seeds_go_on_when_a_process_has_had_its_share_and_none_is_run_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(campaign, "SEEDS_EACH", 2)
    told: list[SeedResult] = []
    state = tmp_path / "state"
    found = run_seeds(SMALL, 1, state, told.append)
    assert [one.seed for one in found] == [one.seed for one in told] == [0, 1, 2]
    assert run_seeds(SMALL, 1, state, told.append) == found
    assert len(told) == len(state.read_text().splitlines()) == 3


def test_a_campaign_that_is_killed_leaves_no_process_behind() -> None:
    command = [sys.executable, "-m", "extender", "simulate", "--seeds", "0:1000", "--pods", "1", "--days", "0.001"]
    with subprocess.Popen([*command, "--faults", "none", "--jobs", "2"], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline().startswith("seed ")
        killed.kill()
        told, _ = killed.communicate(timeout=GENEROUS_S)  # Ends when nobody holds the pipe any more.
        assert len(told.splitlines()) < 100
