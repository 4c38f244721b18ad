"""Build the controllers of nodes: mapping, drains, marks, health and external nodes."""

from __future__ import annotations

from collections.abc import Callable

from extender.assembly.adapters import Adapters
from extender.config.derive import external_rules, mark_rules
from extender.controllers.nodes.clearance import Clearance
from extender.controllers.nodes.controller import NodeController
from extender.controllers.nodes.deferred_pod_holds import DeferredPodHolds
from extender.controllers.nodes.external_nodes import ExternalNodeController
from extender.controllers.nodes.fence_evidence import FenceEvidenceController
from extender.controllers.nodes.fences import FenceController
from extender.controllers.nodes.health import HealthController
from extender.controllers.nodes.marks import MarkController
from extender.controllers.nodes.native_jobs import NativeJobs
from extender.controllers.nodes.removals import RemovalController
from extender.controllers.nodes.unsafe_jobs import UnsafeJobs
from extender.domain.nodes.fence_evidence import FenceProofs
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.pods.deferred_pods import DeferredPods
from extender.engine.engine import Engine
from extender.engine.engine_context import EngineState
from extender.engine.workload_resolver import WorkloadResolver
from extender.kube.lease import KubeNodeLeases
from extender.kube.node_writes import NodeWriter
from extender.runtime.topics import PodChanged
from extender.slurm.external_nodes import Registrar


class NodeControllers:
    """Build the controllers of Nodes and Slurm nodes.

    `evidence` signs fence evidence on Nodes. `settled`: return whether every workload that existed at the start has
    its job. `fresh`: return whether the informers of Pods and Nodes are up to date.
    """

    def __init__(
        self,
        engine: Engine,
        state: EngineState,
        adapters: Adapters,
        workloads: WorkloadResolver,
        *,
        evidence: FenceProofs,
        settled: Callable[[], bool],
        fresh: Callable[[], bool],
        deferred: DeferredPods,
        allocation_records: AllocationRecords,
    ) -> None:
        config, clock, informers, events = adapters.config, adapters.clock, adapters.informers, adapters.events
        kubernetes, announcer, limits = adapters.io_context.kubernetes, adapters.announcer, config.limits
        writer = NodeWriter(kubernetes, clock=adapters.api_clock)
        self._informers = informers
        self.controller = _node_controller(engine, adapters, settled, deferred.on_node)
        self.deferred_pod_holds = DeferredPodHolds(
            engine,
            state,
            self.controller,
            adapters.jobs,
            deferred=deferred,
            allocation_records=allocation_records,
            cache=informers.pods,
        )
        self.health = HealthController(
            engine,
            self.controller,
            clock,
            config.nodes.drain,
            kube_node=informers.nodes.named,
            slurmds=informers.pods.slurmds_of,
        )
        marks = mark_rules(config, adapters.owner)
        self.native_jobs = NativeJobs(engine, adapters.jobs, clock, events, enabled=bool(marks.lock), owner=marks.owner)
        self.marks = MarkController(
            engine,
            writer,
            clock,
            announcer,
            marks,
            kube_nodes=informers.nodes.all,
            kube_node=informers.nodes.named,
            slurmds=informers.slurmds,
            in_pods=bool(informers.slurmd.labels),
            native=self.native_jobs,
        )
        self.external_nodes = _external_nodes(engine, self.controller, adapters, settled=settled, fresh=fresh)
        self.fence_evidence = FenceEvidenceController(
            engine,
            adapters.fence_ledger,
            evidence,
            writer,
            clock,
            kube_node=informers.nodes.named,
            lifetime_s=config.fences.evidence,
        )
        self.unsafe_jobs = UnsafeJobs(engine, self.fence_evidence.fenced, announcer)
        self.fences = FenceController(engine, state, self.controller, clock)
        self.clearance = Clearance(engine, state.missing_jobs, self.controller, clock, longest_grace_s=limits.max_grace)
        self.removals = RemovalController(
            engine,
            state.missing_jobs,
            workloads,
            self.controller,
            KubeNodeLeases(kubernetes),
            clock=clock,
            announcer=announcer,
            writer=writer,
            kube_nodes=informers.kube_nodes,
            longest_grace_s=int(limits.max_pod_grace),
        )

    def slurmd_pod_changed(self, event: PodChanged) -> None:
        """Map nodes again where a Pod changed that runs a slurmd."""
        slurmds = [pod for pod in (event.old, event.new) if pod is not None and self._informers.slurmd.selects(pod)]
        if slurmds:
            self.controller.slurmd_changed()
            self.health.slurmd_changed(slurmds[0].name)


def _node_controller(
    engine: Engine, adapters: Adapters, settled: Callable[[], bool], deferred_on: Callable[[str], bool]
) -> NodeController:
    """Return the controller that maps Nodes to Slurm nodes and drains these."""
    config, informers = adapters.config, adapters.informers
    return NodeController(
        engine,
        adapters.slurm_nodes,
        adapters.drains,
        adapters.clock,
        adapters.announcer,
        events=adapters.events,
        kube_nodes=informers.kube_nodes,
        slurmds=informers.slurmds,
        pairing=config.nodes.pairing,
        awaited=external_rules(config).meant,
        settled=settled,
        deferred_on=deferred_on,
        interval=config.limits.nodes_interval,
        longest_end=config.limits.max_grace,
        owner=adapters.owner,
    )


def _external_nodes(
    engine: Engine,
    controller: NodeController,
    adapters: Adapters,
    *,
    settled: Callable[[], bool],
    fresh: Callable[[], bool],
) -> ExternalNodeController:
    """Return the controller that registers Nodes with Slurm as external nodes."""
    config, clock, informers = adapters.config, adapters.clock, adapters.informers
    return ExternalNodeController(
        engine,
        controller,
        Registrar(adapters.io_context.slurm, clock, adapters.owner, observe_request=adapters.observe_request),
        clock,
        adapters.announcer,
        rules=external_rules(config),
        settle_delays=config.nodes.settle_delays,
        mass_deletion_guard=adapters.mass_deletion_guard,
        kube_nodes=informers.nodes,
        on_node=informers.pods.on_node,
        settled=settled,
        fresh=fresh,
    )
