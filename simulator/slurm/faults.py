"""SlurmFaults between a client and the simulated Slurm, one request at a time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum


class SlurmFault(StrEnum):
    """A fault of a request."""

    DELAY = "delay"
    """It is carried out and answered, later."""

    LATE = "late"
    """It is held up on its way and carried out when it arrives, also after the client stopped waiting."""

    LOSE_REQUEST = "lose request"
    """It never arrives, and no answer comes."""

    LOSE_ANSWER = "lose answer"
    """It is carried out, and no answer comes."""

    REFUSE = "refuse"
    """It is answered with an error of slurmctld and not carried out."""

    FAIL_AFTER = "fail after"
    """It is carried out, and answered with HTTP 500 without the job."""

    GARBAGE = "garbage"
    """It is carried out, and half of the answer comes, as if it were all."""

    UNAVAILABLE = "unavailable"
    """slurmrestd cannot reach slurmctld."""


@dataclass(slots=True)
class SlurmFaultRule:
    """Strikes requests whose method and path (after `/slurm/v0.0.N`) begin so.

    The first `after` are spared, then `times` are struck, one of `every` so many, drawn. `seconds` is how long it is
    delayed or held up, `number` the error of a refusal.
    """

    fault: SlurmFault
    method: str = ""
    path: str = ""
    times: int = 1_000_000
    after: int = 0
    seconds: float = 0.0
    number: int = -1
    every: int = 1
    rng: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311

    def strikes(self, method: str, path: str) -> bool:
        """Return whether this request is struck; counts it."""
        if not method.startswith(self.method) or not path.startswith(self.path) or self.times <= 0:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.every > 1 and self.rng.randrange(self.every):
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class SlurmFaults:
    """The rules in force, in order; the first that strikes is taken."""

    rules: list[SlurmFaultRule] = field(default_factory=list)

    def add(self, fault: SlurmFault, method: str = "", path: str = "", **options: float) -> SlurmFaultRule:
        """Put a rule in force. Options: `times`, `after`, `seconds`, `number`, `every`."""
        rule = SlurmFaultRule(fault, method, path)
        for name, value in options.items():
            if name not in {"times", "after", "seconds", "number", "every"}:
                raise ValueError(f"fault option {name!r} is not one of times, after, seconds, number, every")
            setattr(rule, name, value if name == "seconds" else int(value))
        self.rules.append(rule)
        return rule

    def clear(self) -> None:
        """Remove all faults."""
        self.rules.clear()

    def strike(self, method: str, path: str) -> SlurmFaultRule | None:
        """Return the rule that strikes this request."""
        return next((rule for rule in self.rules if rule.strikes(method, path)), None)
