"""Seeds that are run each time: work, trouble of every class, peace, and every invariant kept."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.campaign import run_seed
from simulator.invariants.invariant import Invariant
from simulator.options import FaultClass, Options, read_faults, read_release
from simulator.runner import simulate
from simulator.slurm.release import RELEASES

PODS, SHORT_DAYS = 10, 0.003
"""As in `make prove-simulation`: some 2 s of a core for each seed."""

IN_EVERY_RUN = range(6)
SEEDS = [*IN_EVERY_RUN, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 24))]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_is_kept_whatever_goes_wrong(seed: int) -> None:
    release = read_release("each", seed)
    _kept(Options(seed, PODS, days=SHORT_DAYS, faults=read_faults("drawn", seed), slurm=release))


def test_every_release_of_slurm_has_its_turn_in_every_run() -> None:
    assert {read_release("each", seed) for seed in IN_EVERY_RUN} == set(RELEASES)


def test_every_promise_is_kept_under_all_classes_of_faults() -> None:
    _kept(Options(2, PODS, days=SHORT_DAYS))


@pytest.mark.parametrize("faults", [*FaultClass, None])
def test_every_promise_is_kept_under_one_class_of_faults(faults: FaultClass | None) -> None:
    _kept(Options(1000, PODS, days=SHORT_DAYS, faults=frozenset({faults} if faults else ())))


MACHINES = [5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (12, 14, 17, 23, 26))]


@pytest.mark.parametrize("seed", MACHINES)
def test_every_promise_is_kept_while_machines_that_are_registered_change(seed: int) -> None:
    faults = frozenset({FaultClass.OPERATORS, FaultClass.SLURM, FaultClass.CRASHES})
    outcome = simulate(Options(seed, PODS, days=0.01, faults=faults))
    assert not outcome.violations, outcome.report
    assert any(one.startswith("machines: ") for one in outcome.injected)
    assert outcome.checked[Invariant.NODES]


@pytest.mark.parametrize("seed", [1001])
def test_the_mass_deletion_guard_holds_when_everything_is_forgotten_now_and_then(seed: int) -> None:
    outcome = simulate(Options(seed, pods=18, days=SHORT_DAYS, faults=frozenset({FaultClass.AMNESIA})))
    assert not outcome.violations, outcome.report
    assert "an operator confirms what the mass-deletion guard holds back" in outcome.event_log


def test_a_seed_gives_one_run_to_the_byte(tmp_path: Path) -> None:
    said = [_run(tmp_path / hash_seed, hash_seed) for hash_seed in ("1", "2")]
    assert said[0] == said[1]
    assert b"bound" in said[0][1]


def test_another_seed_gives_another_run() -> None:
    digests = {run_seed(Options(seed, pods=4, days=0.002)).digest for seed in (1, 2)}
    assert len(digests) == 2


def test_a_slow_machine_gives_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(5, pods=6, days=0.001)
    digest = run_seed(options).digest
    readings = itertools.count(step=100)
    monkeypatch.setattr("time.monotonic", lambda: float(next(readings)))
    assert run_seed(options).digest == digest


def test_another_release_of_slurm_gives_another_run() -> None:
    digests = {run_seed(Options(1, pods=2, days=0.001, slurm=release)).digest for release in ("23.11.11", "26.05.5")}
    assert len(digests) == 2


def _kept(options: Options) -> None:
    result = run_seed(options)
    assert not result.violations, f"{result.violations}\nagain: {options.command}"
    assert result.pods


def _run(event_log: Path, hash_seed: str) -> tuple[bytes, bytes]:
    command = "from extender.cli import main; main()"
    arguments = ["simulate", "--seed", "7", "--pods", "8", "--days", "0.002", "--event-log", str(event_log)]
    done = subprocess.run(
        [sys.executable, "-c", command, *arguments],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rb"invariants: \d+ checks, 0 violations", done.stdout)
    return done.stdout, event_log.read_bytes()
