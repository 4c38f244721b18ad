"""The outside as the engine and the controllers see it: every port with what implements it."""

from __future__ import annotations

from extender.assembly.informers import Informers
from extender.assembly.io_context import IoContext
from extender.config.derive import mass_deletion_guard_options
from extender.config.document import ExtenderConfiguration
from extender.config.policy_file import PolicyFile
from extender.controllers.nodes.drains import Drains
from extender.domain.nodes.drain_reasons import drainer
from extender.domain.nodes.fence_evidence import FenceLedger
from extender.domain.placeholders import Placeholders
from extender.engine.job_terminator import JobTerminator
from extender.engine.mass_deletion_guard import MassDeletionGuard
from extender.engine.slurm_health import SlurmHealth
from extender.kube.announce import EventWriter
from extender.kube.api_clock import ApiClock
from extender.kube.checkpoints import CheckpointLease
from extender.kube.pod_group_status import PodGroupStatusWriter
from extender.kube.pod_reads import PodReader
from extender.kube.resource_claims import ResourceClaimWriter
from extender.kube.writes import PodWriter
from extender.runtime.event_bus import EventBus
from extender.slurm.api_requests import ObserveRequest
from extender.slurm.job_records import SlurmrestdJobRecords
from extender.slurm.jobs import SlurmrestdJobs
from extender.slurm.nodes import SlurmrestdNodes
from extender.slurm.placeholder_script import HookSettings
from extender.slurm.shares import SlurmrestdShares


class Adapters:
    """Kubernetes' side, Slurm's side, and the policy file of the site."""

    def __init__(
        self,
        config: ExtenderConfiguration,
        io_context: IoContext,
        cluster: str,
        *,
        hooks: HookSettings,
        events: EventBus,
        placeholders: Placeholders,
        observe_request: ObserveRequest,
    ) -> None:
        kubernetes, clock = io_context.kubernetes, io_context.clock
        self.config = config
        self.events = events
        self.io_context = io_context
        self.clock = clock
        self.owner = drainer(cluster, config.scheduler.name)
        """The author that marks the extender's drains."""

        self.observe_request = observe_request
        self.api_clock = ApiClock(clock)
        kubernetes.on_answer(self.api_clock.answered)
        self.informers = Informers(config, io_context)
        self.policy_file = PolicyFile(config, events)
        self.announcer = EventWriter(
            kubernetes,
            clock=clock,
            instance=config.leader_election.identity or io_context.host,
            busy=placeholders.many_being_placed,
        )
        self.pod_writer = PodWriter(
            kubernetes, clock=self.api_clock, rng=io_context.rng, max_grace_s=int(config.limits.max_grace)
        )
        self.group_statuses = PodGroupStatusWriter(kubernetes, self.informers.pod_groups)
        self.pod_reader = PodReader(kubernetes, rng=io_context.rng)
        self.resource_claims = ResourceClaimWriter(kubernetes, clock=clock, rng=io_context.rng)
        self.checkpoints = CheckpointLease(
            kubernetes, config.leader_election.namespace, f"{config.leader_election.lease_name}-checkpoints"
        )
        self.jobs = SlurmrestdJobs(io_context.slurm, clock, hooks=hooks, observe_request=observe_request)
        self.terminator = JobTerminator(self.jobs, events)
        self.mass_deletion_guard = MassDeletionGuard(clock, events, mass_deletion_guard_options(config))
        self.slurm_nodes = SlurmrestdNodes(
            io_context.slurm,
            clock,
            send_user_signal=config.slurm.send_user_signal,
            preempting_qos=frozenset(config.slurm.preempting_qos),
            default_partition=config.slurm.default_partition or "",
            external_anywhere=config.jobs.external_anywhere,
            owner=self.owner,
            observe_request=observe_request,
        )
        self.job_records = SlurmrestdJobRecords(io_context.slurm, clock, observe_request=observe_request)
        self.shares = SlurmrestdShares(io_context.slurm, clock, observe_request=observe_request)
        self.drains = Drains(self.slurm_nodes, clock, self.owner, events)
        self.slurm_health = SlurmHealth(clock)
        self.fence_ledger = FenceLedger(config.fences.evidence, config.fences.call_within + config.slurm.kill_wait)
        """Which nodes have a working fence."""
