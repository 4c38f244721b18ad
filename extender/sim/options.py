"""What is asked of a simulated run, and which kinds of faults there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

DAY_S = 86_400.0


class FaultClass(StrEnum):
    """A kind of fault; `MEANINGS` says what it does."""

    NETWORK = "network"
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    CRASHES = "crashes"
    OPERATORS = "operators"
    CLOCK = "clock"
    AMNESIA = "amnesia"


MEANINGS = {
    FaultClass.NETWORK: "connections cut, cut in the middle of an answer, refused and stalled; slow links",
    FaultClass.SLURM: "requests lost before and after they were carried out, errors, half answers, slow ones; "
    "slurmctld away; slurmrestd away for minutes; a slurmctld that forgets its last jobs and gives their ids out again",
    FaultClass.KUBERNETES: "requests lost before and after, 500, 504, 429, slow; watches closed, history compacted "
    "(410); the API server away for minutes; kubelets that fall silent and come back",
    FaultClass.CRASHES: "the extender killed at any instant, or ended in good order, and started again",
    FaultClass.OPERATORS: "scontrol hold, release, requeue, suspend, TimeLimit; scancel; nodes drained, resumed, DOWN "
    "and back; Nodes cordoned",
    FaultClass.CLOCK: "the wall clock of the extender's machine steps, back and forth",
    FaultClass.AMNESIA: "slurmctld forgets every job at once; a person lets go what the brake holds, minutes later",
}

ALL = frozenset(FaultClass) - {FaultClass.AMNESIA}
"""What `all` stands for. Where everything is forgotten now and then, little else has the time to happen."""


@dataclass(frozen=True, slots=True)
class Options:
    """One run. `days` is for how long there is work and trouble; afterwards all is healed and has to come to rest."""

    seed: int
    pods: int = 30
    nodes: int = 3
    days: float = 0.02
    faults: frozenset[FaultClass] = ALL

    @property
    def command(self) -> str:
        """What runs it again."""
        return (
            f"slurm-extender simulate --seed {self.seed} --pods {self.pods} --nodes {self.nodes} "
            f"--days {self.days:g} --faults {say_faults(self.faults)}"
        )


def read_faults(text: str) -> frozenset[FaultClass]:
    """`none`, `all`, or classes with commas between. Raises ValueError."""
    words = [word.strip() for word in text.split(",")]
    if words == ["none"]:
        return frozenset()
    if words == ["all"]:
        return ALL
    wrong = [word for word in words if word not in set(FaultClass)]
    if wrong:
        raise ValueError(f"faults: {', '.join(wrong)} is not one of none, all, {', '.join(FaultClass)}")
    return frozenset(FaultClass(word) for word in words)


def say_faults(faults: Iterable[FaultClass]) -> str:
    """As `read_faults` reads it."""
    chosen = set(faults)
    if chosen == ALL:
        return "all"
    return ",".join(one for one in FaultClass if one in chosen) or "none"
