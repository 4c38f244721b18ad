"""Serve old state: a watch cache that stops, a watch with lines in another order, etcd or slurmctld restored."""

from __future__ import annotations

import asyncio

from simulator.faults.fault_source import FaultSource
from simulator.kube.watch_caches import WatchDisorder
from simulator.options import FaultClass

STILL_S = (5.0, 30.0, 120.0)
"""Longer periods cannot be distinguished from a cluster without changes."""


def stale(source: FaultSource) -> None:
    """Start to serve old or reordered state; an active fault of this kind ends."""
    rng, cluster = source.rng, source.cluster
    caches, seconds = cluster.kube.caches, rng.choice(STILL_S)
    caches.heal()
    if rng.random() < 0.5:
        share = rng.choice([0.5, 1.0])
        caches.stand_still(lambda: rng.random() < share)
        compacted = rng.random() < 0.5

        def relist() -> None:
            """Close all watches: clients list again, and may reach the stopped cache."""
            if compacted:
                cluster.kube.storage.forget_history()
            cluster.api.drop_watches()

        cluster.slurm.controller.timers.after(rng.uniform(0.0, seconds), relist)
        what = "a cache stands still, " + ("compacted" if compacted else "watches closed")
    else:
        disorder = rng.choice(list(WatchDisorder))
        caches.disturb(disorder, rng)
        what = f"a watch delivers {disorder}"
    source.during(seconds, caches.heal)
    source.record(FaultClass.STALE, f"{what}, {seconds:g} s")


AGE_S = (2.0, 20.0, 90.0)
"""Age of the restored state."""


def restore(source: FaultSource) -> None:
    """Save the state of etcd or slurmctld now, and restore it later."""
    rng, cluster = source.rng, source.cluster
    timers, age = cluster.slurm.controller.timers, rng.choice(AGE_S)
    if rng.random() < 0.5:
        bump = rng.random() < 0.5
        snapshot = cluster.kube.storage.save()

        async def etcd() -> None:
            await asyncio.sleep(age)
            async with source.restoring:
                if source.stopped:
                    return
                source.quiescence.touch()
                await cluster.restore_kube(snapshot, bump=bump)
                source.restored()
                source.quiescence.touch()
            source.record(FaultClass.RESTORES, f"etcd, {age:g} s old" + ("" if bump else ", its versions come again"))

        timers.start(etcd(), "restore of etcd")
        return
    saved = cluster.slurm.controller.save()

    def slurmctld() -> None:
        if source.stopped:
            return
        cluster.slurm.controller.restore(saved)
        source.restored()
        source.quiescence.touch()
        source.record(FaultClass.RESTORES, f"slurmctld, {age:g} s old")

    timers.after(age, slurmctld)
