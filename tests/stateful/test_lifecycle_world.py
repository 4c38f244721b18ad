"""Random histories of a workload between a Slurm and a Kubernetes that fail, forget, and are operated by people.

Hypothesis looks for a short history that breaks an invariant; the seeds are long ones, in which workloads live through
every state many times over.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings

from tests.builders.histories import Histories, happen

Histories.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestHistories = Histories.TestCase


@pytest.mark.parametrize("seed", range(100))
def test_long_histories_end_well(seed: int) -> None:
    rng, world = random.Random(seed), Histories()
    world.begin(pods=rng.choice((1, 1, 2)))
    history: list[str] = []
    try:
        for _ in range(400):
            history.append(happen(world, rng))
            world.pods_run_for_one_job_at_a_time()
        world.teardown()
    except Exception as error:
        error.add_note(f"seed {seed}, and at the end: " + "; ".join(history[-30:]))
        raise
