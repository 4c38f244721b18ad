"""Seeds with Pods of another scheduler: what they use is held in Slurm, or their node is kept, whatever goes wrong."""

from __future__ import annotations

import pytest

from simulator.campaign import run_seed
from simulator.invariants.invariant import Invariant
from simulator.options import Options, read_faults, read_release
from tests.sim.test_seeds import PODS, SHORT_DAYS

FOREIGN = 12
SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_is_kept_with_pods_of_another_scheduler(seed: int) -> None:
    faults, release = read_faults("drawn", seed), read_release("each", seed % 3)
    options = Options(seed, PODS, days=SHORT_DAYS, faults=faults, slurm=release, foreign=FOREIGN)
    result = run_seed(options)
    assert not result.violations, f"{result.violations}\nagain: {options.command}"
    assert result.checked[Invariant.HELD]
