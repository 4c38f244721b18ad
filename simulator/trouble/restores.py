"""States that come back as they were: etcd from a snapshot, slurmctld from an older save."""

from __future__ import annotations

import asyncio

from simulator.options import FaultClass
from simulator.trouble.fault import Trouble

AGE_S = (2.0, 20.0, 90.0)
"""How old what is restored is."""


def restore(trouble: Trouble) -> None:
    """Save one of them now, and come back to it after a while."""
    rng, cluster = trouble.rng, trouble.cluster
    timers, age = cluster.slurm.controller.timers, rng.choice(AGE_S)
    if rng.random() < 0.5:
        bump = rng.random() < 0.5
        snapshot = cluster.kube.storage.save()

        async def etcd() -> None:
            await asyncio.sleep(age)
            if trouble.stopped:
                return
            trouble.calm.touch()
            await cluster.restore_kube(snapshot, bump=bump)
            trouble.calm.touch()
            trouble.say(FaultClass.RESTORES, f"etcd, {age:g} s old" + ("" if bump else ", its versions come again"))

        timers.start(etcd(), "restore of etcd")
        return
    saved = cluster.slurm.controller.save()

    def slurmctld() -> None:
        if trouble.stopped:
            return
        cluster.slurm.controller.restore(saved)
        trouble.restored()
        trouble.calm.touch()
        trouble.say(FaultClass.RESTORES, f"slurmctld, {age:g} s old")

    timers.after(age, slurmctld)
