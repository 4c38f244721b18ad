"""Build the controllers of Slurm jobs: placeholder jobs, orphaned jobs, and jobs for foreign Pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.assembly.adapters import Adapters
from extender.assembly.node_controllers import NodeControllers
from extender.config.derive import foreign_pod_policy, timing
from extender.controllers.deleted_pods import DeletedPods
from extender.controllers.foreign_pods.controller import ForeignPodController, ForeignPodTiming
from extender.controllers.foreign_pods.overcommitment import Overcommitment
from extender.controllers.gang_node_failures import GangNodeFailures
from extender.controllers.hook_reads import HookReads
from extender.controllers.job_records import JobRecordController
from extender.controllers.jobs import JobController, PollOptions
from extender.controllers.orphaned_jobs import OrphanedJobs
from extender.controllers.orphans import OrphanController, OrphanOptions
from extender.controllers.pod_absence_classifier import PodAbsenceClassifier
from extender.controllers.refresh import RefreshOptions
from extender.domain.views import PodView
from extender.engine.engine import Engine
from extender.engine.engine_context import EngineState
from extender.engine.missing_jobs import PolledJobStates
from extender.engine.workload_resolver import WorkloadResolver
from extender.slurm.foreign_pods import SlurmrestdForeignPods


class JobControllers:
    """`fresh`: return whether the informers are up to date. `observe_poll` is called with the duration of each poll."""

    def __init__(
        self,
        engine: Engine,
        state: EngineState,
        adapters: Adapters,
        workloads: WorkloadResolver,
        nodes: NodeControllers,
        *,
        orphaned: OrphanedJobs,
        fresh: Callable[[], bool],
        observe_poll: Callable[[float, bool], None],
    ) -> None:
        config, clock, informers, limits = adapters.config, adapters.clock, adapters.informers, adapters.config.limits
        events = adapters.events
        refresh = RefreshOptions(limits.refresh_rate, 4 * limits.refresh_rate)
        self.deleted_pods = DeletedPods(config.scheduler.name)
        self.gang_node_failures = GangNodeFailures(engine)
        self.records = JobRecordController(adapters.job_records, clock)
        self.foreign_pods = ForeignPodController(
            engine,
            SlurmrestdForeignPods(
                adapters.io_context.slurm, adapters.jobs, clock, observe_request=adapters.observe_request
            ),
            adapters.terminator,
            state.identity,
            nodes.controller,
            cache=informers.pods,
            pods=adapters.pod_reader,
            clock=clock,
            policy=foreign_pod_policy(config),
            options=config.foreign_pods.options,
            workers=config.foreign_pods.max_concurrent_requests,
            mass_deletion_guard=adapters.mass_deletion_guard,
            all_pods=informers.foreign_pods,
            fresh=fresh,
            events=events,
            timing=ForeignPodTiming(refresh.non_placeholder_read_interval_s),
        )
        self.orphans = OrphanController(
            engine,
            state,
            adapters.jobs,
            adapters.terminator,
            orphaned=orphaned,
            workloads=workloads,
            pods=adapters.pod_reader,
            settle=timing(config).settle,
            clock=clock,
            mass_deletion_guard=adapters.mass_deletion_guard,
            fresh=fresh,
            events=events,
            left_behind=nodes.removals.left_behind,
            known_otherwise=lambda: self.foreign_pods.jobs,
            classifier=PodAbsenceClassifier(adapters.checkpoints, clock),
            departed=self.deleted_pods.get,
            options=OrphanOptions(refresh.non_placeholder_read_interval_s),
        )
        self.overcommitment = Overcommitment(engine, self.foreign_pods, adapters.announcer, informers.nodes.named)
        self.hook_reads = HookReads(engine, clock)
        self.controller = JobController(
            engine,
            PolledJobStates(engine.placeholders, state.missing_jobs, engine.handle),
            state.job_reads,
            adapters.jobs,
            clock=clock,
            events=events,
            health=adapters.slurm_health,
            options=PollOptions(config.polling.min_interval, config.polling.max_interval, refresh=refresh),
            observe_poll=observe_poll,
        )

    def foreign_pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Handle a change of a Pod that runs no slurmd."""
        self.foreign_pods.pod_changed(old, new)

    def absent(self, pods: Sequence[PodView]) -> None:
        """Handle Pods that a list lacks without a reported deletion."""
        self.foreign_pods.absent(pods)
