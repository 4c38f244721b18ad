"""Options of a simulated run, and the classes of faults."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from simulator.node_names import NodeNaming
from simulator.slurm.release import NEWEST, RELEASES, SimRelease

DAY_S = 86_400.0


class FaultClass(StrEnum):
    """A class of faults; `MEANINGS` describes each."""

    NETWORK = "network"
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    CRASHES = "crashes"
    OPERATORS = "operators"
    CLOCK = "clock"
    AMNESIA = "amnesia"
    STALE = "stale"
    OUTAGES = "outages"
    EPILOGS = "epilogs"
    SCOPE = "scope"
    REPLICAS = "replicas"
    RESTORES = "restores"


MEANINGS = {
    FaultClass.NETWORK: "connections cut, cut in the middle of an answer, refused and stalled; slow links",
    FaultClass.SLURM: "requests lost before and after they were carried out, errors, half answers, slow ones; "
    "slurmctld down; slurmrestd down for minutes; a slurmctld that forgets its last jobs and gives their ids out again",
    FaultClass.KUBERNETES: "requests lost before and after, 500, 504, 429, slow; Bindings refused (403, 409); watches "
    "closed, history compacted (410); the API server down for minutes; kubelets that fall silent and come back",
    FaultClass.CRASHES: "the extender killed at any instant, or ended in good order, and started again",
    FaultClass.OPERATORS: "scontrol hold, release, requeue, suspend, TimeLimit; scancel; nodes drained, resumed, DOWN "
    "and back, FAIL, under maintenance; Nodes cordoned",
    FaultClass.CLOCK: "the wall clock of the extender's machine steps, back and forth",
    FaultClass.AMNESIA: "slurmctld forgets every job at once; an operator confirms evictions minutes later",
    FaultClass.STALE: "an API server whose cache stands still, for every second list and watch or for all of them; "
    "lines of a watch twice, again later, and in another order, of one object too",
    FaultClass.OUTAGES: "slurmrestd, slurmctld or the API server down, stopped, answering garbage, errors or late, "
    "every time for minutes",
    FaultClass.EPILOGS: "nodes that hold after a job for their Epilog, until its Pods are gone or for seconds; "
    "Epilogs that fail",
    FaultClass.SCOPE: "the extender started again with another list of namespaces, with and without that of its Pods",
    FaultClass.REPLICAS: "two extenders; one is killed, ended, stopped, cut off from the API server, from Slurm "
    "or from the other; requests about the Lease lost, refused and late",
    FaultClass.RESTORES: "etcd restored from an older snapshot, its versions given out again or not; Slurm's state "
    "from an older save; an operator confirms evictions",
}

BY_NAME = frozenset({FaultClass.AMNESIA, FaultClass.RESTORES})
"""Classes that only an explicit list selects: when all state is lost often, little else can happen."""

ALL = frozenset(FaultClass) - BY_NAME
"""The classes that `all` selects."""

DRAWN = (1, 1, 2, 3, 4)
"""Numbers of classes that a seed may draw, with repetitions as weights."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one run. Load and faults last for `days`; then faults are healed and the cluster must become quiet."""

    seed: int
    pods: int = 30
    nodes: int = 3
    days: float = 0.02
    faults: frozenset[FaultClass] = ALL
    slurm: str = NEWEST
    naming: NodeNaming = NodeNaming.SAME
    foreign: int = 0
    """Maximum number of Pods that another scheduler binds."""

    gangs: int = 0
    """Maximum number of gangs. A site with gangs has the fence script on every node."""

    @property
    def command(self) -> str:
        """Return the command that reproduces the run."""
        return (
            f"slurm-extender simulate --seed {self.seed} --pods {self.pods} --nodes {self.nodes} "
            f"--days {self.days:g} {say_release(self.slurm)}{say_naming(self.naming)}{say_foreign(self.foreign)}"
            f"{say_gangs(self.gangs)}--faults {say_faults(self.faults)}"
        )


def read_faults(text: str, seed: int) -> frozenset[FaultClass]:
    """Parse `none`, `all`, `drawn` (some, by the seed), or a comma-separated list of classes. Raises ValueError."""
    words = [word.strip() for word in text.split(",")]
    if words == ["none"]:
        return frozenset()
    if words == ["all"]:
        return ALL
    if words == ["drawn"]:
        rng = random.Random(f"the faults of seed {seed}")  # noqa: S311 - everything is to come again
        return frozenset(rng.sample(list(FaultClass), rng.choice(DRAWN)))
    wrong = [word for word in words if word not in set(FaultClass)]
    if wrong:
        raise ValueError(f"faults: {', '.join(wrong)} is not one of none, all, drawn, {', '.join(FaultClass)}")
    return frozenset(FaultClass(word) for word in words)


def read_release(text: str, seed: int) -> str:
    """Parse a release of Slurm, or `each`, which selects one by the seed. Raises ValueError."""
    return RELEASES[seed % len(RELEASES)] if text == "each" else SimRelease(text).text


def say_release(text: str) -> str:
    """Return the option with a trailing space, "" for the newest release."""
    return "" if text == NEWEST else f"--slurm {text} "


def read_naming(text: str, seed: int) -> NodeNaming:
    """Parse how Nodes are mapped to Slurm nodes, or `each`, which selects by the seed. Raises ValueError."""
    if text == "each":
        return list(NodeNaming)[seed % len(NodeNaming)]
    if text not in set(NodeNaming):
        raise ValueError(f"names: {text} is not one of {', '.join(NodeNaming)}, each")
    return NodeNaming(text)


def say_naming(naming: str) -> str:
    """Return the option with a trailing space, "" for the default."""
    return "" if naming == NodeNaming.SAME else f"--names {naming} "


def say_foreign(count: int) -> str:
    """Return the option with a trailing space, "" for zero."""
    return f"--foreign {count} " if count else ""


def say_gangs(count: int) -> str:
    """Return the option with a trailing space, "" for zero."""
    return f"--gangs {count} " if count else ""


def say_faults(faults: Iterable[FaultClass]) -> str:
    """Return the classes in the form that `read_faults` parses."""
    chosen = set(faults)
    if chosen == ALL:
        return "all"
    return ",".join(one for one in FaultClass if one in chosen) or "none"
