"""Run two replicas with leader election and inject faults into either."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from extender.server.election import Deposed
from simulator.faults.fault_source import FaultSource
from simulator.invariants.checker import InvariantChecker
from simulator.invariants.invariant import Invariant
from simulator.kube.faults import KubeFault
from simulator.options import FaultClass
from simulator.quiescence import AvailabilityTracker
from simulator.replicas.process import ExtenderProcess, config_of
from simulator.replicas.supervisor import SCOPES

CHECK_EVERY_S = 0.25
LEASES = "/leases"
ACTS = ("killed", "killed", "ended", "stopped", "cut off", "lease")


@dataclass(slots=True, kw_only=True)
class ReplicaPair(FaultSource):
    """Inject a fault into one of two replicas about every `every_s`; ended ones are restarted."""

    checker: InvariantChecker
    every_s: float
    scopes: bool = False
    """Each start may serve other namespaces."""

    lives: int = 0
    quiet: bool = False
    """Inject no further fault."""

    _living: list[ExtenderProcess | None] = field(default_factory=lambda: [None, None])
    _all: list[ExtenderProcess] = field(default_factory=list)
    _whole: dict[str, bool] = field(default_factory=dict)
    """Whether a replica serves every namespace, by name."""

    _cut: list[tuple[ExtenderProcess, str]] = field(default_factory=list)
    _presence: AvailabilityTracker = field(init=False)
    _leader: ExtenderProcess | None = None

    def __post_init__(self) -> None:
        self._presence = AvailabilityTracker(self.quiescence, self.event_log)

    async def run(self) -> None:
        """Keep two replicas running until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self.rng.expovariate(1 / self.every_s)
        try:
            for place in range(2):
                self._start(place)
            while True:
                self._check()
                if self.quiet:
                    self._heal()
                elif loop.time() >= due:
                    due = loop.time() + self.rng.expovariate(1 / self.every_s)
                    self._act()
                await asyncio.sleep(CHECK_EVERY_S)
        finally:
            for process in self._all:
                process.kill()
            for process in self._all:  # connections between them are lost on either's loop
                await process.wait()

    def _start(self, place: int) -> None:
        name = f"replica-{self.lives}"
        self.lives += 1
        scope = self.rng.choice(SCOPES) if self.scopes and not self.quiet else ""
        self._whole[name] = not scope
        self.event_log.add(f"{name} begins" + (f", {scope.strip()}" if scope else ""))
        process = ExtenderProcess(
            self.cluster, name, config_of(name, self.cluster.config + scope), place=f"place-{place}"
        )
        self._living[place] = process
        self._all.append(process)
        self.cluster.network.services.setdefault("extender", []).append(name)

    def _check(self) -> None:
        """Find the leader, and restart replicas that ended."""
        loop = asyncio.get_running_loop()
        for place, process in enumerate(self._living):
            if process is None or process.alive:
                continue
            if process.error is not None and not _deposed(process.error):
                self.checker.violate(Invariant.ALIVE, f"{process.name}: {process.error!r}")
            self.event_log.add(f"{process.name} is over, {process.exit_code}")
            self.cluster.network.services["extender"].remove(process.name)
            self._living[place] = None
            loop.call_later(self.rng.choice([0.05, 1.0, 5.0, 60.0]), self._start, place)
        leader = next((one for one in self._living if one is not None and one.leads), None)
        if leader is not None and leader.assembly is not None:
            self.cluster.extender = leader.assembly
        if leader is not self._leader and leader is not None:
            self.event_log.add(f"{leader.name} leads")
        self._leader = leader or self._leader
        self._presence.is_here(leader is not None and not self._cut and self.cluster.extender.ready)

    def _act(self) -> None:
        rng = self.rng
        there = [one for one in self._living if one is not None and not one.paused]
        if not there:
            return
        # The leader, two times out of three: little depends on the other one.
        chosen = rng.choice(there)
        one = next((each for each in there if each is self._leader and rng.random() < 0.5), chosen)
        what = rng.choice(ACTS)
        match what:
            case "killed":
                one.kill()
            case "ended":
                one.terminate()
            case "stopped":
                one.stop()
                self.during(rng.choice([1.0, 8.0, 12.0, 20.0, 90.0]), one.go_on)
            case "cut off":
                what = self._cut_off(one)
            case _:
                what = self._disturb_lease()
        self.record(FaultClass.REPLICAS, f"{what}, {one.name}")

    def _cut_off(self, one: ExtenderProcess) -> str:
        others = [other.name for other in self._living if other is not None and other is not one]
        host = self.rng.choice(["kube", "kube", "slurm", *others])
        one.network.cut_off(host)
        self._cut.append((one, host))
        self.during(self.rng.choice([3.0, 12.0, 20.0, 90.0]), lambda: self._repair(one, host))
        return "cut off from " + ("the other" if host in others else host)

    def _disturb_lease(self) -> str:
        rng, faults = self.rng, self.cluster.kube.faults
        code = rng.choice([0, 409, 429, 500, 504, None])
        fault = faults.add(
            KubeFault(
                method=rng.choice(["POST", "PUT", "GET", ""]),
                path=LEASES,
                code=code,
                reason="Conflict" if code == 409 else "InternalError",
                after=rng.random() < 0.5 and code in {0, 500, 504},
                delay_s=rng.choice([0.0, 2.0, 7.0]),
                times=rng.randrange(1, 8),
            )
        )
        self.during(60.0, lambda: faults.remove(fault))
        return "requests about the Lease"

    def _repair(self, process: ExtenderProcess, host: str) -> None:
        process.network.cut_off(host, away=False)
        self._cut = [one for one in self._cut if one != (process, host)]

    def _heal(self) -> None:
        for process, host in tuple(self._cut):
            self._repair(process, host)
        for one in self._living:
            if one is not None and one.paused:
                one.go_on()
            if one is not None and not self._whole[one.name]:
                self._whole[one.name] = True
                one.terminate()


def _deposed(error: BaseException) -> bool:
    """Return whether the process ended because it could not renew its Lease."""
    if isinstance(error, BaseExceptionGroup):
        return all(_deposed(one) for one in error.exceptions)
    return isinstance(error, Deposed) or isinstance(error.__cause__, Deposed)
