"""Name what the engine uses of the outside: ports, the event bus, and three questions to other parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from extender.domain.placeholder import Placeholder
from extender.domain.ports import Announcer, Clock, PodCache, Pods, SlurmJobs
from extender.domain.views import PodView
from extender.engine.job_terminator import JobTerminator
from extender.engine.mass_deletion_guard import MassDeletionGuard
from extender.engine.slurm_health import SlurmHealth
from extender.runtime.event_bus import EventBus


@dataclass(frozen=True, slots=True)
class EnginePorts:
    """Everything that the engine reaches outside of this process."""

    clock: Clock
    jobs: SlurmJobs
    terminator: JobTerminator
    guard: MassDeletionGuard
    pods: Pods
    announcer: Announcer
    cache: PodCache
    events: EventBus
    slurm_health: SlurmHealth
    kept_from: Callable[[str, str], str]
    """Why nothing of a workload may start on a Slurm node; "": no Pod outlives its job there. Arguments: node, key."""

    on_no_node: Callable[[str], bool]
    """Whether a resource is on no node: a licence, or devices that a DeviceClass stands for."""

    policy_trouble: Callable[[], str]
    """What is wrong with the policy of the site where there is none; "" where there is one."""

    def pods_of(self, p: Placeholder) -> list[PodView]:
        """The Pods of a unit as they were last seen; those that are not known are left out."""
        return [pod for ref in p.refs if (pod := self.cache.get(ref.uid)) is not None]
