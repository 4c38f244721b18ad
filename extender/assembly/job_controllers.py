"""Build the controllers of Slurm jobs: placeholder jobs, orphaned jobs, and jobs for foreign Pods."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence

from extender.assembly.adapters import Adapters
from extender.assembly.node_controllers import NodeControllers
from extender.config.derive import guest_policy, timing
from extender.controllers.deleted_pods import DeletedPods
from extender.controllers.guests.controller import GuestController, GuestTiming
from extender.controllers.guests.overcommitment import Overcommitment
from extender.controllers.jobs import JobController, PollOptions
from extender.controllers.orphans import OrphanController, OrphanOptions
from extender.controllers.refresh import RefreshOptions
from extender.domain.views import PodView
from extender.engine.engine import Engine
from extender.engine.engine_context import EngineState
from extender.engine.missing_jobs import JobStates
from extender.engine.workload_resolver import WorkloadResolver
from extender.slurm.guests import Guests


class JobControllers:
    """`fresh`: what is known of Pods and Nodes is up to date. `observe_poll` is told how long each poll took."""

    def __init__(
        self,
        engine: Engine,
        state: EngineState,
        outside: Adapters,
        workloads: WorkloadResolver,
        nodes: NodeControllers,
        *,
        fresh: Callable[[], bool],
        observe_poll: Callable[[float, bool], None],
    ) -> None:
        config, clock, informers, limits = outside.config, outside.clock, outside.informers, outside.config.limits
        events = outside.events
        refresh = RefreshOptions(limits.refresh_rate, 4 * limits.refresh_rate)
        self.departures = DeletedPods(config.scheduler.name)
        self.guests = GuestController(
            engine,
            Guests(outside.io_context.slurm, outside.jobs, clock, observe_request=outside.observe_request),
            outside.terminator,
            state.identity,
            nodes.controller,
            cache=informers.pods,
            pods=outside.pod_reader,
            clock=clock,
            policy=guest_policy(config),
            options=config.foreign_pods.options,
            workers=config.foreign_pods.requests,
            guard=outside.guard,
            all_pods=informers.foreign_pods,
            fresh=fresh,
            events=events,
            timing=GuestTiming(refresh.others_every),
        )
        self.orphans = OrphanController(
            engine,
            state,
            outside.jobs,
            outside.terminator,
            workloads=workloads,
            pods=outside.pod_reader,
            settle=timing(config).settle,
            clock=clock,
            guard=outside.guard,
            fresh=fresh,
            events=events,
            left_behind=nodes.removals.left_behind,
            known_elsewhere=lambda: self.guests.jobs,
            departed=self.departures.get,
            options=OrphanOptions(refresh.others_every),
        )
        self.overcommitment = Overcommitment(engine, self.guests, outside.announcer, informers.nodes.named)
        self.controller = JobController(
            engine,
            JobStates(engine.placeholders, state.missing_jobs, engine.handle),
            state.job_reads,
            outside.jobs,
            clock=clock,
            events=events,
            health=outside.slurm_health,
            options=PollOptions(limits.poll_interval, limits.poll_interval_most, refresh=refresh),
            observe_poll=observe_poll,
        )

    def parts(self) -> dict[str, Coroutine[None, None, None]]:
        """What runs while this process may write."""
        return {
            "job controller": self.controller.run(),
            "orphans": self.orphans.run(),
            "guests": self.guests.run(),
            "overcommitment": self.overcommitment.run(),
        }

    def foreign_pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """The watch brought a change of a Pod that runs no slurmd."""
        self.guests.pod_changed(old, new)

    def absent(self, pods: Sequence[PodView]) -> None:
        """A list lacks these Pods, and nobody told of their end."""
        self.guests.absent(pods)
