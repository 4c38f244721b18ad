"""Seeds with gangs on sites with fences: whole or not at all, in order, whatever goes wrong."""

from __future__ import annotations

import pytest

from simulator.campaign import run_seed
from simulator.invariants.invariant import Invariant
from simulator.options import Options, read_faults, read_release
from simulator.runner import simulate
from tests.sim.test_seeds import SHORT_DAYS

PODS, NODES, GANGS = 4, 5, 4
SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 16))]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_is_kept_with_gangs(seed: int) -> None:
    faults, release = read_faults("drawn", seed), read_release("each", seed)
    options = Options(seed, PODS, NODES, SHORT_DAYS, faults, release, gangs=GANGS)
    result = run_seed(options)
    assert not result.violations, f"{result.violations}\nagain: {options.command}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "faults", "slurm"),
    [
        pytest.param(13, "replicas", "25.11.8", id="a later member was gated when the leader changed"),
        pytest.param(30, "kubernetes,restores", "26.05.5", id="etcd restored twice, with two Jobs of one name"),
        pytest.param(123, "crashes,epilogs", "24.11.5", id="workers of another partition than their leader"),
        pytest.param(285, "operators", "24.11.5", id="Slurm knows more CPUs than Kubernetes"),
        pytest.param(330, "network,slurm,operators,restores", "26.05.5", id="a cordon came back with etcd"),
    ],
)
def test_every_promise_is_kept_in_a_seed_that_once_failed(seed: int, faults: str, slurm: str) -> None:
    kinds = read_faults(faults, seed)
    options = Options(seed, PODS, NODES, 0.004, kinds, read_release(slurm, seed), gangs=5)
    result = run_seed(options)
    assert not result.violations, f"{result.violations}\nagain: {options.command}"


def test_a_quiet_site_binds_gangs_in_order_of_rank_and_each_whole() -> None:
    outcome = simulate(Options(0, PODS, NODES, SHORT_DAYS, frozenset(), gangs=GANGS))
    assert not outcome.violations, outcome.report
    assert all(outcome.checked[one] for one in (Invariant.WHOLE_GANGS, Invariant.RANKS, Invariant.SLOTS))
