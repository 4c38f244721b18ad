"""Show the queue: each partition with its nodes, CPUs and GPUs, and the Pods that wait for it, by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from extender.domain.cluster import SlurmNode, SlurmPartition
from extender.domain.fair_shares import FairShares
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import SlurmShares
from extender.engine.engine import Engine
from extender.runtime.cooperative_yield import CooperativeYield

GPU = "gpu"
MOST_SHARES = 5000
"""Lines of fair shares in one answer."""

_OUT_OF_SERVICE = frozenset({"DOWN", "FUTURE", "UNKNOWN"})


@dataclass(slots=True)
class _Line:
    """The Pods of one partition."""

    waiting: int = 0
    placed: int = 0
    gpus_wanted: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def shown(self) -> dict[str, Any]:
        return {
            "waiting": self.waiting,
            "placed": self.placed,
            "gpusWanted": self.gpus_wanted,
            "reasons": dict(self.reasons.most_common()),
        }


class QueueInspection:
    """Reads the engine; asks Slurm for fair shares alone."""

    def __init__(self, engine: Engine, shares: SlurmShares) -> None:
        self._engine = engine
        self._shares = shares

    async def queue(self, shows: Callable[[Placeholder], bool] | None = None) -> Mapping[str, Any]:
        """Return the partitions. A Pod that may run in several partitions counts in each.

        `shows`: only these workloads are counted; `None`: all.
        """
        slurm = self._engine.snapshot.slurm
        lines: dict[str, _Line] = {name: _Line() for name in slurm.partitions}
        turns = CooperativeYield()
        for p in list(self._engine.placeholders.all.values()):
            await turns.maybe_yield()
            if shows is not None and not shows(p):
                continue
            names = slurm.partition_names(p.request.partition if p.request is not None else "") or ("",)
            for name in names:
                self._add(lines.setdefault(name, _Line()), p)
        return {
            "partitions": [
                {**_capacity(slurm.partitions.get(name), slurm.nodes), "name": name, **line.shown()}
                for name, line in sorted(lines.items())
            ]
        }

    async def shares(self, accounts: Iterable[str]) -> Mapping[str, Any]:
        """Return the fair shares of these accounts, of all without any. Raises `PortError`."""
        wanted = frozenset(accounts)
        found: FairShares = await self._shares.fair_shares()
        lines = [one for one in found.shares if not wanted or one.account in wanted]
        return {
            "shares": [asdict(one) for one in lines[:MOST_SHARES]],
            "leftOut": max(0, len(lines) - MOST_SHARES),
            "limitsUnknown": found.limits_unknown,
        }

    def _add(self, line: _Line, p: Placeholder) -> None:
        members = [one for one in p.members if one.end is None]
        if p.state in {State.BOUND, State.LOST}:
            line.placed += len(members)
        elif p.wants:
            line.waiting += len(members)
            line.gpus_wanted += gpus_of(p.request.gres) * len(members) if p.request is not None else 0
            line.reasons[p.reason or str(self._engine.explain(p).cause)] += len(members)


def _capacity(partition: SlurmPartition | None, nodes: Mapping[str, SlurmNode]) -> dict[str, Any]:
    """Return the nodes of a partition; of one that Slurm does not have, none."""
    found = [nodes[name] for name in partition.nodes if name in nodes] if partition is not None else []
    serving = [node for node in found if node.state not in _OUT_OF_SERVICE and not node.drained]
    return {
        "known": partition is not None,
        "default": partition is not None and partition.default,
        "nodes": len(found),
        "nodesInService": len(serving),
        "cpus": sum(node.cpus for node in found),
        "cpusUsed": sum(node.used.cpus for node in found),
        "gpus": sum(gpus_of(node.gres) for node in found),
        "gpusUsed": sum(gpus_of(node.used.gres) for node in found),
    }


def gpus_of(gres: Mapping[str, int]) -> int:
    """Return how many GPUs, of any type, these GRES are."""
    return sum(count for name, count in gres.items() if name == GPU or name.startswith(f"{GPU}:"))
