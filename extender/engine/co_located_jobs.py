"""Check that the jobs of other Pods on a granted node are alive, by answers that are newer than the grant.

Slurm may have given the node because one of them ended, and the new job tells of itself before a poll tells of that
end. So they are asked for at once, and the node is handed out when each is known to live. A job that lives at an
instant after the grant is not the one whose place was given away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set

from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Clock
from extender.domain.views import PodView
from extender.engine.job_read_versions import JobReadVersions


class CoLocatedJobChecks:
    """`on_node` gives the Pods on a Kubernetes node, `owner` the placeholder of a Pod."""

    def __init__(
        self,
        clock: Clock,
        readings: JobReadVersions,
        on_node: Callable[[str], Sequence[PodView]],
        owner: Callable[[str], Placeholder | None],
    ) -> None:
        self.ask: Callable[[Set[int]], None] = lambda _jobs: None
        """Called with jobs of which Slurm is to say now whether they live."""

        self._clock = clock
        self._job_reads = readings
        self._on_node = on_node
        self._owner = owner
        self._granted_at: dict[str, float] = {}
        """When each unit that is GRANTED was first known to have these nodes."""

        self._lived_at: dict[int, float] = {}
        """The last instant at which each job of ours was asked for and lived."""

        self._waiting: set[str] = set()
        """Units whose nodes are looked at when it is known how the other Pods' jobs there are."""

    def stepped(self, before: Placeholder, after: Placeholder) -> None:
        """A unit changed."""
        if after.state is not State.GRANTED:
            self._granted_at.pop(after.key, None)
            self._waiting.discard(after.key)
        elif before.state is not State.GRANTED or before.slurm_nodes != after.slurm_nodes:
            self._granted_at[after.key] = self._clock.now()

    def keep_waiting(self, p: Placeholder) -> bool:
        """Whether Slurm has yet to say of a neighbour how its job is. Then it is asked; `told` says when it has."""
        unknown = self._unknown(p)
        if unknown:
            self._waiting.add(p.key)
            self.ask(unknown)
        return bool(unknown)

    def told(self, asked_at: float, living: Iterable[int], every: bool) -> None:
        """These jobs lived when Slurm was asked then. `every`: of all jobs of ours it was asked."""
        said = dict.fromkeys(living, asked_at)
        self._lived_at = said if every else self._lived_at | said

    def known_now(self, units: Callable[[str], Placeholder | None]) -> list[Placeholder]:
        """The units that waited, and of whose neighbours enough is known now."""
        found = [p for key in sorted(self._waiting) if (p := units(key)) is not None and not self._unknown(p)]
        self._waiting.difference_update(p.key for p in found)
        return found

    def _unknown(self, p: Placeholder) -> set[int]:
        since = self._granted_at.get(p.key)
        if since is None:
            return set()
        lived, told_since = self._lived_at, self._job_reads.told_since
        unknown: set[int] = set()
        for node in {node for _, node in p.allocation}:
            for pod in self._on_node(node):
                other = self._owner(pod.uid)
                if other is None or other.key == p.key or (job := other.job_id) is None:
                    continue
                if lived.get(job, float("-inf")) >= since or told_since(job, since):
                    continue
                if other.state is not State.LOST and other.charged:
                    unknown.add(job)
        return unknown
