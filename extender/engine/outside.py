"""The ports that the engine uses."""

from __future__ import annotations

from dataclasses import dataclass

from extender.ports import Announcer, Clock, PodCache, Pods, SlurmJobs


@dataclass(frozen=True, slots=True)
class Outside:
    """All that the engine reaches outside of this process."""

    clock: Clock
    jobs: SlurmJobs
    pods: Pods
    announcer: Announcer
    cache: PodCache
