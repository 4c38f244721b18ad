"""Name what the parts of the engine get: its options, what it uses of the outside, and the state that they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from extender.domain import events as e
from extender.domain.events import MemberRef
from extender.domain.jobs.checkpoint import Checkpoint
from extender.domain.jobs.extender_identity import JobIdentity
from extender.domain.nodes.fence_evidence import FencedNodes
from extender.domain.placeholder import Placeholder, Timing
from extender.domain.placeholders import Placeholders
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.pods.deferred_pods import DeferredPods
from extender.domain.ports import Announcer, Clock, PodCache, Pods, SlurmJobs
from extender.domain.views import PodView
from extender.engine.cluster_snapshot import ClusterSnapshot
from extender.engine.job_read_versions import JobReadVersions
from extender.engine.job_terminator import JobTerminator
from extender.engine.missing_jobs import MissingJobTracker
from extender.engine.slurm_health import SlurmHealth
from extender.runtime.event_bus import EventBus


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """`workers` bounds the requests under way to Slurm and, separately, to Kubernetes."""

    allocation_records: AllocationRecords
    """Writes and reads what Pods say about their jobs."""

    timing: Timing = field(default_factory=Timing)
    workers: int = 8
    validate: bool = False
    """Hold the invariants after every step; for tests."""


@dataclass(slots=True)
class EngineState:
    """The shared state. The engine writes `snapshot`; all other components only read it."""

    placeholders: Placeholders
    identity: JobIdentity
    job_reads: JobReadVersions
    missing_jobs: MissingJobTracker
    snapshot: ClusterSnapshot = field(default_factory=ClusterSnapshot)
    deferred: DeferredPods = field(default_factory=DeferredPods)


DeviceCheck = e.AllocationFits | e.AllocationBusy | e.AllocationMisfits


class Checkpoints(Protocol):
    """Write the checkpoints that prove a deletion of Pods. `CheckpointWriter` of the controllers implements it."""

    @property
    def begun(self) -> int:
        """Return how many writes have begun: a later one covers all Pods that were seen before."""
        ...

    async def write(self, seen: int) -> Checkpoint | None:
        """Return a checkpoint that covers Pods that were seen when `begun` was `seen`; `None`: it was not written."""
        ...

    async def has(self, checkpoint: Checkpoint) -> bool:
        """Return whether Kubernetes has a checkpoint now. Raises PortError."""
        ...


class DevicesOfMembers(Protocol):
    """Check and write the devices of ResourceClaims. `MemberDevices` of the controllers implements it."""

    def check(self, p: Placeholder) -> DeviceCheck:
        """Return whether every member that wants a node can have its devices there, by what is known now."""
        ...

    def missing_resource_claim(self, p: Placeholder) -> str:
        """Return which ResourceClaim of a member that waits does not exist, as a sentence; "" if none is missing."""
        ...

    async def prepare(self, p: Placeholder, ref: MemberRef) -> str:
        """Write the ResourceClaims of a member before kube-scheduler tries its Pod; "" once they are, else why not."""
        ...


@dataclass(frozen=True, slots=True)
class EnginePorts:
    """Everything that the engine reaches outside of itself."""

    clock: Clock
    jobs: SlurmJobs
    terminator: JobTerminator
    pods: Pods
    announcer: Announcer
    cache: PodCache
    events: EventBus
    slurm_health: SlurmHealth
    checkpoints: Checkpoints
    kept_from: Callable[[str, str], str]
    """Why nothing of a workload may start on a Slurm node; "": no Pod outlives its job there. Arguments: node, key."""

    on_no_node: Callable[[str], bool]
    """Whether a resource is on no node: a licence, or devices that a DeviceClass stands for."""

    gang_waits_for: Callable[[str], str]
    """What a workload needs of its members before it may have a job, as a sentence; ""."""

    policy_trouble: Callable[[], str]
    """What is wrong with the policy of the site where there is none; "" where there is one."""

    devices: DevicesOfMembers
    """Checks and writes the devices of ResourceClaims."""

    gangs_need_fence: bool = True
    """A job of several nodes is submitted only where each node that it may get has a working fence."""

    has_left_job: Callable[[str], bool] = lambda _key: False
    """Whether Slurm has a job of this workload from a time when no extender knew the workload."""

    fenced: Callable[[], FencedNodes] = FencedNodes
    """The Slurm nodes with a working fence, now."""

    def pods_of(self, p: Placeholder) -> list[PodView]:
        """Return the Pods of a workload as they were last seen, without those that are not known."""
        return [pod for ref in p.refs if (pod := self.cache.get(ref.uid)) is not None]
