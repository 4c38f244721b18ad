"""Old news of the API server: a cache that stands still, a watch that tells things twice or in another order."""

from __future__ import annotations

from simulator.kube.caches import Disorder
from simulator.options import FaultClass
from simulator.trouble.fault import Trouble

STILL_S = (5.0, 30.0, 120.0)
"""Where it lasts longer nobody can tell it from a cluster in which nothing happens."""


def stale(trouble: Trouble) -> None:
    """One of them begins. Another one that is under way ends."""
    rng, cluster = trouble.rng, trouble.cluster
    caches, seconds = cluster.kube.caches, rng.choice(STILL_S)
    caches.heal()
    if rng.random() < 0.5:
        share = rng.choice([0.5, 1.0])
        caches.stand_still(lambda: rng.random() < share)
        compacted = rng.random() < 0.5

        def ask_again() -> None:
            """Every client lists or watches anew, and may meet that cache."""
            if compacted:
                cluster.kube.storage.forget_history()
            cluster.api.drop_watches()

        cluster.slurm.controller.timers.after(rng.uniform(0.0, seconds), ask_again)
        what = "a cache stands still, " + ("compacted" if compacted else "watches closed")
    else:
        disorder = rng.choice(list(Disorder))
        caches.disturb(disorder, rng)
        what = f"a watch tells {disorder}"
    trouble.during(seconds, caches.heal)
    trouble.say(FaultClass.STALE, f"{what}, {seconds:g} s")
