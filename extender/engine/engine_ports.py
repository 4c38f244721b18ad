"""Name the ports that the engine uses."""

from __future__ import annotations

from dataclasses import dataclass

from extender.domain.placeholder import Placeholder
from extender.domain.ports import Announcer, Clock, PodCache, Pods, SlurmJobs
from extender.domain.views import PodView


@dataclass(frozen=True, slots=True)
class EnginePorts:
    """Everything that the engine reaches outside of this process."""

    clock: Clock
    jobs: SlurmJobs
    pods: Pods
    announcer: Announcer
    cache: PodCache

    def pods_of(self, p: Placeholder) -> list[PodView]:
        """The Pods of a unit as they were last seen; those that are not known are left out."""
        return [pod for ref in p.refs if (pod := self.cache.get(ref.uid)) is not None]
