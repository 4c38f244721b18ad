"""Share what all faults need: record and count them, report the disturbance, and heal them after a time."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from simulator.cluster import SimCluster
from simulator.event_log import EventLog
from simulator.options import FaultClass
from simulator.quiescence import QuiescenceTracker


@dataclass(slots=True)
class FaultSource:
    """A source of faults. `injected` counts them by class and kind."""

    cluster: SimCluster
    rng: random.Random
    event_log: EventLog
    quiescence: QuiescenceTracker
    injected: Counter[str] = field(default_factory=Counter)
    restored: Callable[[], None] = lambda: None
    """Called after slurmctld or etcd was restored to an older state."""

    stopped: bool = False
    """Inject no further fault."""

    restoring: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while etcd is restored."""

    def during(self, seconds: float, heal: Callable[[], object]) -> None:
        """Heal the fault that `say` records next after `seconds`."""
        number = f"fault {self.injected.total()}"
        self.quiescence.begin(number)

        def end() -> None:
            heal()
            self.quiescence.end(number)
            self.event_log.add(f"{number} is over")

        self.cluster.slurm.controller.timers.after(seconds, end)

    def away(self, host: str, port: int, seconds: float) -> None:
        """Refuse connections to an address for `seconds`."""
        network = self.cluster.network
        network.refuse(host, port)
        network.cut(host, port)
        self.during(seconds, lambda: network.refuse(host, port, False))

    def record(self, kind: FaultClass, what: str) -> None:
        """Record and count a fault."""
        self.event_log.add(f"fault {self.injected.total()}: {kind}: {what}")
        self.injected[f"{kind}: {re.split(', | for | of ', what)[0]}"] += 1
