"""Define the faults of the fake API server, which a simulation or a test sets.

Connections that break, stall or are refused are faults of the network (`simulator.network.memory`), not of the server.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from simulator.kube.status_errors import StatusError


@dataclass(slots=True)
class KubeFault:
    """A fault of requests that match, `times` times (`None`: until it is removed).

    Of `every` so many it strikes one, drawn.
    `path` is a regular expression, searched in the path. `code` 0 stands for no answer at all: the request hangs;
    `None` for the right answer, late. `after`: the request is carried out first, so that the client cannot know its
    outcome. `garbage`: it is carried out, and half of the answer comes, as if it were all. `delay_s` comes before all
    else.
    """

    method: str = ""
    path: str = ""
    watch: bool | None = None
    code: int | None = 500
    reason: str = "InternalError"
    message: str = "an injected fault"
    retry_after_s: int = 0
    after: bool = False
    garbage: bool = False
    delay_s: float = 0.0
    times: int | None = 1
    every: int = 1
    rng: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311

    def refusal(self) -> StatusError:
        """Return the answer in place of the real one."""
        details = {"retryAfterSeconds": self.retry_after_s} if self.retry_after_s else None
        return StatusError(self.code or 500, self.reason, self.message, details)


@dataclass(slots=True)
class KubeFaults:
    """The faults that are set; the first that matches acts."""

    rules: list[KubeFault] = field(default_factory=list)

    def add(self, fault: KubeFault) -> KubeFault:
        """Set a fault; later ones act when earlier ones are spent."""
        self.rules.append(fault)
        return fault

    def remove(self, fault: KubeFault) -> None:
        """Heal one, unless it is spent."""
        self.rules = [rule for rule in self.rules if rule is not fault]

    def clear(self) -> None:
        """Heal everything."""
        self.rules.clear()

    def take(self, method: str, path: str, watch: bool) -> KubeFault | None:
        """Return the fault that this request meets, and spend it."""
        for fault in self.rules:
            if fault.method in {"", method} and re.search(fault.path, path) and fault.watch in {None, watch}:
                if fault.every > 1 and fault.rng.randrange(fault.every):
                    continue
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self.rules.remove(fault)
                return fault
        return None
