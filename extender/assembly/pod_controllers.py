"""Build the controllers of Pods: gates, explanations, grants, start-up deadlines and annotations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.assembly.adapters import Adapters
from extender.config.derive import mark_rules, timing
from extender.controllers.annotation_repair import AnnotationRepairController
from extender.controllers.devices.pod_devices import PodDevices
from extender.controllers.explanations import Explanations
from extender.controllers.gangs.candidates import MemberCandidates
from extender.controllers.gate_arrivals import GateArrivals
from extender.controllers.gates import GateController
from extender.controllers.one_by_one_warnings import OneByOneWarnings
from extender.controllers.pod_group_status import NamedGroups, PodGroupStatusController
from extender.controllers.requeue import RequeueController
from extender.controllers.scheduling import FilterCandidates
from extender.controllers.startup_deadline import StartLimits, StartupDeadlineController
from extender.controllers.toleration_check import TolerationCheck
from extender.controllers.unbound_allocations import UnboundAllocationController
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.views import PodView
from extender.engine.engine import Engine
from extender.engine.workload_resolver import WorkloadResolver
from extender.runtime.topics import DeferredPodsAdopted, PodsAdopted


class PodControllers:
    """`fresh`: return whether the informers are up to date. `licensed`: a resource is a licence, which no node has."""

    def __init__(
        self,
        engine: Engine,
        adapters: Adapters,
        *,
        allocation_records: AllocationRecords,
        members: MemberCandidates,
        candidates: FilterCandidates,
        one_by_one: OneByOneWarnings,
        workloads: WorkloadResolver,
        pod_devices: PodDevices,
        fresh: Callable[[], bool],
        licensed: Callable[[str], bool],
    ) -> None:
        config, clock, informers, writer = adapters.config, adapters.clock, adapters.informers, adapters.pod_writer
        pods, announcer, policy_file = informers.pods, adapters.announcer, adapters.policy_file
        schedulers = [config.scheduler.name]
        self.gates = GateController(
            members,
            candidates,
            workloads,
            writer,
            schedulers=schedulers,
            nodes=informers.nodes.all,
            repelling=pods.repelling,
            licensed=licensed,
            by_class=informers.device_classes.offers,
            translated=pod_devices.translates,
            as_judged=pod_devices.as_judged,
        )
        self.gate_arrivals = GateArrivals(schedulers, adapters.api_clock)
        self.requeue = RequeueController(engine, writer, pods, clock)
        self.annotation_repair = AnnotationRepairController(
            engine, writer, pods, announcer, clock, allocation_records=allocation_records
        )
        self.startup_deadline = StartupDeadlineController(
            engine,
            writer,
            adapters.pod_reader,
            cache=pods,
            announcer=announcer,
            clock=adapters.api_clock,
            limits=StartLimits(config.startup_deadline.duration, config.startup_deadline.evict),
            policy=lambda: policy_file.policy,
            namespace_labels=informers.namespaces.labels_of,
            fresh=fresh,
        )
        self.unbound_allocations = UnboundAllocationController(engine, pods, clock, timing=timing(config), fresh=fresh)
        self.group_status = PodGroupStatusController(
            engine,
            workloads,
            adapters.group_statuses,
            announcer,
            adapters.api_clock,
            groups=NamedGroups(
                informers.pod_groups.named,
                pods.naming,
                pods.named_groups,
                lambda: informers.pod_groups.condition,
            ),
            allocation_records=allocation_records,
        )
        self.tolerations = TolerationCheck(announcer, schedulers, mark_rules(config, adapters.owner).tolerated)
        self.one_by_one = one_by_one
        self.explanations = Explanations(
            engine,
            writer,
            pods,
            announcer,
            adapters.api_clock,
        )

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Handle a change of a Pod, or its adoption."""
        self.gates.pod_changed(old, new)
        self.gate_arrivals.pod_changed(old, new)
        self.tolerations.pod_changed(old, new)
        self.one_by_one.pod_changed(old, new)

    def deferred_adopted(self, event: DeferredPodsAdopted) -> None:
        """Handle Pods of the start that are adopted only now."""
        for pod in event.pods:
            self.pod_changed(None, pod)
        self.requeue.adopted(PodsAdopted())

    def absent(self, pods: Sequence[PodView]) -> None:
        """Handle Pods that a list lacks without a reported deletion. One that returns counts as new."""
        for pod in pods:
            self.pod_changed(pod, None)
