"""What every fault shares: it is drawn, written down, counted, disturbs the calm while it lasts, and ends by itself."""

from __future__ import annotations

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
    """Where things go wrong. `injected` counts them by class and kind."""

    cluster: SimCluster
    rng: random.Random
    event_log: EventLog
    quiescence: QuiescenceTracker
    injected: Counter[str] = field(default_factory=Counter)
    restored: Callable[[], None] = lambda: None
    """Told when Slurm's state is an older one."""

    stopped: bool = False
    """Nothing new goes wrong."""

    def during(self, seconds: float, heal: Callable[[], object]) -> None:
        """The trouble that is told next lasts so long, and is taken back then."""
        number = f"mishap {self.injected.total()}"
        self.quiescence.begin(number)

        def end() -> None:
            heal()
            self.quiescence.end(number)
            self.event_log.add(f"{number} is over")

        self.cluster.slurm.controller.timers.after(seconds, end)

    def away(self, host: str, port: int, seconds: float) -> None:
        """Nobody answers at an address for so long."""
        network = self.cluster.network
        network.refuse(host, port)
        network.cut(host, port)
        self.during(seconds, lambda: network.refuse(host, port, False))

    def say(self, kind: FaultClass, what: str) -> None:
        """Write down and count what goes wrong."""
        self.event_log.add(f"mishap {self.injected.total()}: {kind}: {what}")
        self.injected[f"{kind}: {re.split(', | for | of ', what)[0]}"] += 1
