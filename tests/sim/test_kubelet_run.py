"""A busy run on Nodes that give Pods less than Slurm thinks: kubelet would have refused none of its placements."""

from __future__ import annotations

import random

import pytest

from extender.domain.placing.fit import Fits
from extender.engine import cluster_snapshot
from simulator.actors.pod_shapes import allocatable
from simulator.invariants.invariant import Invariant
from simulator.options import Options
from simulator.runner import RunResult, simulate
from simulator.slurm.records import SimNode

TIGHT = [seed for seed in range(40) if allocatable(random.Random(f"the shapes of seed {seed}"), [SimNode("n1")])]


def run(seed: int) -> RunResult:
    return simulate(Options(seed, pods=40, days=0.01, faults=frozenset()))


@pytest.mark.parametrize("seed", [TIGHT[0], pytest.param(TIGHT[1], marks=pytest.mark.slow)])
def test_no_node_exceeds_what_it_gives_at_any_placement(seed: int) -> None:
    outcome = run(seed)
    assert not [one for one in outcome.violations if one.invariant is Invariant.ROOM], outcome.report
    assert outcome.checked[Invariant.ROOM] > 30


def test_an_extender_that_did_not_count_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_snapshot, "fit", lambda *_args: Fits())
    assert Invariant.ROOM in {one.invariant for one in run(TIGHT[0]).violations}
