"""Take one server down for minutes: away, stopped, or with late or wrong responses."""

from __future__ import annotations

from simulator.faults.fault_source import FaultSource
from simulator.kube.faults import KubeFault
from simulator.options import FaultClass
from simulator.slurm.faults import SlurmFault

AWAY_S = 600.0
"""The long outage."""

LATE_S = (3.0, 9.0, 40.0)
"""Shorter than all time-outs of the extender, than some, than none."""

KINDS = (
    "slurmrestd away",
    "slurmctld away",
    "slurmctld stopped",
    "Slurm answers",
    "API server away",
    "API server answers",
)


def outage(source: FaultSource) -> None:
    """Start an outage."""
    rng, restd, kube = source.rng, source.cluster.slurm.restd, source.cluster.kube
    seconds = rng.choice([60.0, 180.0, AWAY_S])
    late = rng.choice(LATE_S)
    what = rng.choice(KINDS)
    match what:
        case "slurmrestd away":
            source.away("slurm", 6820, seconds)
        case "slurmctld away":
            restd.slurmctld_up = False
            source.during(seconds, lambda: setattr(restd, "slurmctld_up", True))
        case "slurmctld stopped":
            restd.stop_slurmctld()
            source.during(seconds, restd.continue_slurmctld)
        case "Slurm answers":
            fault = rng.choice([SlurmFault.GARBAGE, SlurmFault.LATE, SlurmFault.DELAY, SlurmFault.FAIL_AFTER])
            rule = restd.faults.add(fault, times=10**9, seconds=late)
            what += f" {fault}"
            source.during(seconds, lambda: setattr(rule, "times", 0))
        case "API server away":
            source.away("kube", 6443, seconds)
        case _:
            how, code, garbage = rng.choice(
                [("errors", 500, False), ("errors", 503, False), ("garbage", None, True), ("late", None, False)]
            )
            one = kube.faults.add(
                KubeFault(
                    code=code,
                    after=rng.random() < 0.5 and code is not None,
                    garbage=garbage,
                    delay_s=late if how == "late" else 0.0,
                    times=None,
                    watch=None if rng.random() < 0.5 else False,
                )
            )
            what += f" {how}"
            source.during(seconds, lambda: kube.faults.remove(one))
    source.record(FaultClass.OUTAGES, f"{what}, {seconds:g} s")
