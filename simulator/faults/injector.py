"""Inject faults of the network, Slurm, Kubernetes and the clock; each heals after a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from simulator.faults.fault_source import FaultSource
from simulator.faults.outages import AWAY_S, outage
from simulator.faults.stale_state import restore, stale
from simulator.kube.faults import KubeFault
from simulator.options import FaultClass
from simulator.slurm.faults import SlurmFault

LINKS = (("slurm", 6820), ("kube", 6443), ("extender", 8080), ("extender", 8000))


@dataclass(slots=True, kw_only=True)
class FaultInjector(FaultSource):
    """Inject a fault of the chosen classes about every `every_s`."""

    classes: frozenset[FaultClass]
    every_s: float

    async def run(self) -> None:
        """Inject faults until cancelled."""
        makers: dict[FaultClass, Callable[[], None]] = {
            FaultClass.NETWORK: self._network,
            FaultClass.SLURM: self._slurm,
            FaultClass.KUBERNETES: self._kubernetes,
            FaultClass.CLOCK: self._clock,
            FaultClass.AMNESIA: self._amnesia,
            FaultClass.STALE: lambda: stale(self),
            FaultClass.OUTAGES: lambda: outage(self),
            FaultClass.RESTORES: lambda: restore(self),
        }
        chosen = [makers[one] for one in FaultClass if one in self.classes and one in makers]
        while chosen:
            await asyncio.sleep(self.rng.expovariate(len(chosen) / self.every_s))
            if not self.stopped:
                self.rng.choice(chosen)()

    def heal(self) -> None:
        """Stop, and heal all active faults."""
        self.stopped = True
        self.cluster.slurm.restd.faults.clear()
        self.cluster.kube.faults.clear()
        self.cluster.kube.caches.heal()
        self.cluster.clock_error_s = 0.0

    # By class.

    def _network(self) -> None:
        rng, network = self.rng, self.cluster.network
        host, port = rng.choice(LINKS)
        what = rng.choice(["cut", "cut in an answer", "stall", "refuse"])
        match what:
            case "cut":
                network.cut(host, port)
                self.quiescence.touch()
            case "cut in an answer":
                network.cut_after(host, port, rng.randrange(1, 5000))
                self.quiescence.touch()
            case "stall":
                network.stall(host, port)
                self.during(rng.choice([0.5, 5.0, 30.0]), lambda: network.resume(host, port))
            case _:
                network.refuse(host, port)
                network.cut(host, port)
                self.during(rng.choice([1.0, 20.0, 60.0]), lambda: network.refuse(host, port, False))
        self.record(FaultClass.NETWORK, f"{what} {host}:{port}")

    def _slurm(self) -> None:
        rng, restd = self.rng, self.cluster.slurm.restd
        what = rng.choice(["requests", "requests", "requests", "slurmctld away", "slurmrestd away", "forgets"])
        match what:
            case "requests":
                fault = rng.choice(list(SlurmFault))
                method, path = rng.choice([("POST", "/job/"), ("DELETE", ""), ("GET", ""), ("POST", "/node"), ("", "")])
                rule = restd.faults.add(
                    fault, method, path, times=rng.randrange(1, 6), seconds=rng.uniform(0.1, 40.0), number=-1
                )
                what = f"{fault}, {method or 'any'} {path}"
                self.during(120.0, lambda: setattr(rule, "times", 0))
            case "slurmctld away":
                restd.slurmctld_up = False
                self.during(rng.choice([5.0, 30.0, 120.0]), lambda: setattr(restd, "slurmctld_up", True))
            case "slurmrestd away":
                seconds = rng.choice([20.0, AWAY_S])
                self.away("slurm", 6820, seconds)
            case _:
                self._forget()
        self.record(FaultClass.SLURM, what)

    def _forget(self) -> None:
        """Kill slurmctld: jobs of the last five seconds are lost, and their ids are reused."""
        controller = self.cluster.slurm.controller
        now = controller.timers.wall()
        lost = [job.job_id for job in controller.known_jobs() if job.submit_time > now - 5.0]
        newest = [job.job_id for job in controller.known_jobs()][-1:]
        controller.forget(*(lost or newest))
        self.event_log.add(f"slurmctld has forgotten {lost or newest}")
        self.quiescence.touch()

    def _kubernetes(self) -> None:
        rng, kube = self.rng, self.cluster.kube
        what = rng.choice(["requests", "requests", "requests", "bindings", "watches closed", "compacted", "away"])
        match what:
            case "bindings":
                status, reason = rng.choice([(403, "Forbidden"), (409, "Conflict")])
                refused = kube.faults.add(
                    KubeFault(method="POST", path="/binding$", code=status, reason=reason, times=rng.randrange(1, 9))
                )
                what = f"{status} for Bindings"
                self.during(rng.choice([5.0, 60.0]), lambda: kube.faults.remove(refused))
            case "requests":
                code = rng.choice([0, 429, 500, 503, 504, None])
                method = rng.choice(["POST", "PATCH", "DELETE", "GET", ""])
                fault = kube.faults.add(
                    KubeFault(
                        method=method,
                        code=code,
                        after=rng.random() < 0.5 and code not in {429, None} and method != "GET",
                        delay_s=rng.choice([0.0, 0.0, 2.0, 20.0]),
                        times=rng.randrange(1, 6),
                        watch=False,
                        retry_after_s=1 if code == 429 else 0,
                    )
                )
                what = f"{code} for {method or 'any'}" + (", carried out" if fault.after else "")
                self.during(120.0, lambda: kube.faults.remove(fault))
            case "watches closed":
                self.cluster.api.drop_watches()
            case "compacted":
                kube.storage.forget_history()
                self.cluster.api.drop_watches()
            case _:
                self.away("kube", 6443, rng.choice([20.0, AWAY_S]))
        self.record(FaultClass.KUBERNETES, what)

    def _clock(self) -> None:
        step = self.rng.choice([-3600.0, -60.0, -2.0, 2.0, 60.0, 3600.0])
        self.cluster.clock_error_s += step
        self.record(FaultClass.CLOCK, f"step of {step:g} s")
        self.quiescence.touch()

    def _amnesia(self) -> None:
        """Restart slurmctld without its state."""
        controller = self.cluster.slurm.controller
        lost = [job.job_id for job in controller.known_jobs() if not job.ended]
        controller.forget(*lost)
        self.quiescence.touch()
        self.record(FaultClass.AMNESIA, f"all forgotten, {len(lost)} jobs")
