"""Put one process together. `assembly/running_parts.py` lists what runs and what it subscribes to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress

from extender.assembly.absences import absent_pods, checkpoint_writer, unknown_members
from extender.assembly.adapters import Adapters
from extender.assembly.device_controllers import DeviceControllers
from extender.assembly.io_context import IoContext
from extender.assembly.job_controllers import JobControllers
from extender.assembly.keys import hook_keys, hook_settings, site_key
from extender.assembly.node_controllers import NodeControllers
from extender.assembly.parts import Part, subscribe
from extender.assembly.pod_controllers import PodControllers
from extender.config.derive import bind_calls, mark_rules, timing
from extender.config.document import ExtenderConfiguration
from extender.config.jobs import UnfencedGangs
from extender.controllers.absent_pods import AbsentPods
from extender.controllers.devices.cpu_orders import CpuOrders
from extender.controllers.devices.member_devices import MemberDevices
from extender.controllers.devices.pod_devices import PodDevices
from extender.controllers.gang_intake import GangIntake
from extender.controllers.gang_vacancies import GangVacancies, VacancyTimes
from extender.controllers.gangs.barrier import GangBarrier
from extender.controllers.gangs.bindings import MemberBindings
from extender.controllers.gangs.candidates import MemberCandidates
from extender.controllers.gangs.members import GangMembers
from extender.controllers.one_by_one_warnings import OneByOneWarnings
from extender.controllers.orphaned_jobs import OrphanedJobs
from extender.controllers.orphans import OrphanController
from extender.controllers.pods import PodController
from extender.controllers.restore_reports import RestoreReports
from extender.controllers.scheduling import FilterCandidates, Scheduling
from extender.controllers.translations import NO_POLICY, Translations
from extender.controllers.unknown_members import UnknownMembers
from extender.domain.cluster import SlurmNode
from extender.domain.gangs.context import GangContext
from extender.domain.jobs.extender_identity import JobIdentity
from extender.domain.nodes.fence_evidence import FenceProofs
from extender.domain.placeholder import State
from extender.domain.placeholders import Placeholders
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.pods.deferred_pods import DeferredPods
from extender.domain.pods.requests import CLASS_RESOURCE
from extender.domain.ports import Announcement
from extender.domain.views import NodeView, PodView
from extender.domain.wellknown import GATE, Reason
from extender.engine.engine import Engine
from extender.engine.engine_context import EngineOptions, EnginePorts, EngineState
from extender.engine.job_read_versions import JobReadVersions
from extender.engine.missing_jobs import MissingJobTracker
from extender.engine.placeholder_index import PlaceholderIndex
from extender.engine.workload_resolver import WorkloadResolver
from extender.kube.owners import OwnerReader
from extender.runtime.cooperative_yield import CooperativeYield
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import (
    DeviceClassChanged,
    NamespaceChanged,
    NodeChanged,
    PodChanged,
    PodGroupChanged,
    PodsAbsent,
    PodsAdopted,
    PolicyFileRead,
    ResourceClaimChanged,
)
from extender.slurm.api_requests import ObserveRequest, unobserved

NAMESPACES_WITHIN = 10.0
"""Seconds for which a start waits for the first list of Namespaces, where the policy asks for their labels."""


class Assembly:
    """Assemble everything that runs, and connect its parts.

    `parts` lists what runs: `assembly.running_parts.all_parts`. `cluster` separates the jobs of this cluster from
    others. `validate` checks the invariants after every step, for tests.
    """

    def __init__(
        self,
        config: ExtenderConfiguration,
        io_context: IoContext,
        cluster: str,
        *,
        parts: Callable[[Assembly], tuple[Part, ...]],
        observe_request: ObserveRequest = unobserved,
        observe_poll: Callable[[float, bool], None] = lambda _duration, _ok: None,
        validate: bool = False,
    ) -> None:
        self.config, self.io_context, self.cluster = config, io_context, cluster
        self.hook_keys, self.site_key = hook_keys(config) or (io_context.fresh_key,), site_key(config)
        self.events, self.deferred, placeholders = EventBus(), DeferredPods(), PlaceholderIndex()
        adapters = Adapters(
            config,
            io_context,
            cluster,
            hooks=hook_settings(config, self.hook_keys[0]),
            events=self.events,
            placeholders=placeholders,
            observe_request=observe_request,
        )
        self.slurm_health, self.informers, self.shares = adapters.slurm_health, adapters.informers, adapters.shares
        self.mass_deletion_guard, self.announcer = adapters.mass_deletion_guard, adapters.announcer
        records = AllocationRecords(self.hook_keys, cluster)
        self.state, self.orphaned_jobs = self._state(adapters, placeholders), OrphanedJobs()
        self.checkpoints, self.policy_file = checkpoint_writer(adapters), adapters.policy_file
        self.pod_devices, self.member_devices = devices = self._devices(adapters, placeholders)
        self.engine = self._engine(adapters, records, placeholders, validate)
        self.gangs = GangMembers(self.engine, self.informers.pods, self.announcer, [GATE], self.deferred)
        workloads = WorkloadResolver(placeholders, self.informers.pods, self.gangs, self.deferred)
        one_by_one = OneByOneWarnings(self.announcer, [config.scheduler.name], self.informers.pod_groups.sources)
        self.member_candidates = members = MemberCandidates(placeholders, self.engine.handle, self.gangs)
        self.candidates = FilterCandidates(self.engine, placeholders, workloads, members, self.events)
        self.pod_controller = self._pod_controller(
            adapters, records, workloads=workloads, members=members, one_by_one=one_by_one
        )
        self.node_controllers = NodeControllers(
            self.engine,
            self.state,
            adapters,
            workloads,
            evidence=FenceProofs(self.hook_keys, cluster, mark_rules(config, adapters.owner).owner),
            settled=self._settled,
            fresh=self._fresh,
            deferred=self.deferred,
            allocation_records=records,
        )
        self.pod_controllers = PodControllers(
            self.engine,
            adapters,
            allocation_records=records,
            members=members,
            one_by_one=one_by_one,
            candidates=self.candidates,
            workloads=workloads,
            pod_devices=self.pod_devices,
            fresh=self._fresh,
            licensed=self._licensed,
        )
        self.job_controllers = JobControllers(
            self.engine,
            self.state,
            adapters,
            workloads,
            self.node_controllers,
            orphaned=self.orphaned_jobs,
            fresh=self._fresh,
            observe_poll=observe_poll,
        )
        self.unknown_members = self._unknown_members(adapters, records)
        self.restore_reports = self._restore_reports()
        self.device_controllers = DeviceControllers(
            adapters, placeholders, *devices, reconsider=self._reconsider, fresh=self._fresh, deferred=self.deferred
        )
        self.gang_barrier, self.gang_vacancies, self.scheduling = self._scheduling(adapters, records)
        self._publish()
        self.parts = parts(self)
        subscribe(self.events, self.parts)

    def _unknown_members(self, adapters: Adapters, records: AllocationRecords) -> UnknownMembers:
        return unknown_members(adapters, self.engine, self.gangs, records, deferred=self.deferred, fresh=self._fresh)

    def _restore_reports(self) -> RestoreReports:
        """Return the reports of a suspected restore, which name the Nodes of its jobs and Pods."""
        suspects = self._suspects
        return RestoreReports(
            self.announcer,
            self.informers.nodes.named,
            lambda: {node for one in suspects for node in one.suspected_nodes()},
        )

    @property
    def _suspects(self) -> tuple[OrphanController | AbsentPods, ...]:
        """Return what keeps jobs and slots whose Pods a restore of etcd may have taken back."""
        return self.job_controllers.orphans, self.pod_controller.missing, self.unknown_members.missing

    def _state(self, adapters: Adapters, placeholders: Placeholders) -> EngineState:
        """Return what the engine knows, and how it recognises the jobs of this cluster."""
        clock, caller = self.io_context.clock, self.config.slurm.caller
        return EngineState(
            placeholders,
            JobIdentity(self.cluster, self.config.scheduler.name, caller=None if caller is None else caller.uid),
            JobReadVersions(clock, lambda: placeholders.jobs),
            MissingJobTracker(
                clock, self.announcer, adapters.mass_deletion_guard, self.events, lambda: len(placeholders.jobs)
            ),
            deferred=self.deferred,
        )

    def _engine(
        self, adapters: Adapters, records: AllocationRecords, placeholders: PlaceholderIndex, validate: bool
    ) -> Engine:
        """Return the engine with its ports."""
        return Engine(
            EngineOptions(records, timing(self.config), self.config.limits.requests, validate),
            self.state,
            placeholders,
            EnginePorts(
                clock=self.io_context.clock,
                jobs=adapters.jobs,
                terminator=adapters.terminator,
                pods=adapters.pod_writer,
                announcer=self.announcer,
                cache=self.informers.pods,
                events=self.events,
                slurm_health=adapters.slurm_health,
                checkpoints=self.checkpoints,
                kept_from=adapters.drains.kept_from,
                devices=self.member_devices,
                on_no_node=self._is_on_no_node,
                has_left_job=self.orphaned_jobs.has_job_of,
                fenced=lambda: adapters.fence_ledger.fenced(self.io_context.clock.now()),
                gangs_need_fence=self.config.gangs.unfenced is UnfencedGangs.REFUSE,
                gang_waits_for=self._gang_waits_for,
                policy_trouble=lambda: "" if self.policy_file.policy is not None else self.policy_file.trouble,
            ),
        )

    def _devices(self, adapters: Adapters, placeholders: Placeholders) -> tuple[PodDevices, MemberDevices]:
        """Return what reads and what writes the devices of Pods."""
        informers = self.informers
        devices = informers.devices

        def node_offers(name: str, resource: str) -> bool:
            node = informers.nodes.named(name)
            return node is not None and resource in node.allocatable

        pods = PodDevices(
            devices.device_map,
            devices,
            informers.pods,
            placeholders,
            users_of_resource_claim=informers.pods.users_of_resource_claim,
            live_users_of_resource_claim=informers.pods.live_users_of_resource_claim,
            node_offers=node_offers,
            scheduler=self.config.scheduler.name,
        )
        cpus = CpuOrders(devices.device_map, informers.nodes.named, self._slurm_node_of, self.announcer)
        members = MemberDevices(
            pods,
            devices,
            adapters.resource_claims,
            cpus,
            cache=informers.pods,
            reads=adapters.pod_reader,
            clock=self.io_context.clock,
        )
        return pods, members

    def _slurm_node_of(self, node: str) -> SlurmNode | None:
        """Return the Slurm node of a Node, as last seen."""
        snapshot = self.state.snapshot
        return snapshot.slurm.nodes.get(snapshot.node_map.slurm.get(node, ""))

    def _pod_controller(
        self,
        adapters: Adapters,
        records: AllocationRecords,
        *,
        workloads: WorkloadResolver,
        members: MemberCandidates,
        one_by_one: OneByOneWarnings,
    ) -> PodController:
        """Return the controller that turns changes of Pods into events of their workloads."""
        translations = Translations(
            lambda: self.policy_file.policy,
            adapters.api_clock,
            self.informers.namespaces.labels_of,
            lambda: self.engine.restricted,
            self.pod_devices.completed,
        )
        return PodController(
            self.engine,
            cache=self.informers.pods,
            owners=OwnerReader(self.io_context.kubernetes, rng=self.io_context.rng),
            announcer=self.announcer,
            clock=adapters.api_clock,
            events=self.events,
            allocation_records=records,
            candidates=self.candidates,
            workloads=workloads,
            gangs=GangIntake(
                self.engine,
                self.gangs,
                members,
                cache=self.informers.pods,
                site=self.gang_context,
                beyond_rule=translations.beyond_rule,
                replace_within_s=self.config.gangs.replace_within,
                complete_within_s=self.config.gangs.complete_within,
                placed_alone=one_by_one.placed_alone,
            ),
            translations=translations,
            naming=self.informers.pods.naming,
            schedulers=[self.config.scheduler.name],
            missing=absent_pods(adapters, self.engine.placeholders),
            deferred=self.deferred,
            fresh=lambda: not self.informers.pod_reflector.status.trouble,
        )

    def _scheduling(
        self, adapters: Adapters, records: AllocationRecords
    ) -> tuple[GangBarrier, GangVacancies, Scheduling]:
        """Return what answers kube-scheduler, and what binds gangs and returns the nodes of ended members."""
        pods, clock, calls = self.informers.pods, self.io_context.clock, bind_calls(self.config)
        writer, devices = adapters.pod_writer, self.member_devices
        bindings = MemberBindings(self.engine, writer, pods, records, devices, calls=calls, clock=clock)
        barrier = GangBarrier(
            self.engine,
            bindings,
            pods,
            clock,
            calls=calls,
            bind_within_s=self.config.gangs.bind_within,
            missing_of=self.gangs.missing_of,
            starts_by_leader=self.gangs.starts_by_leader,
            undone_by_errors=self.pod_devices.undone_by_errors,
        )
        scheduling = Scheduling(
            self.engine,
            self.engine.placeholders,
            self.candidates,
            adapters.pod_writer,
            pods,
            deferred=self.deferred,
            bindings=bindings,
            barrier=barrier,
            schedulers=[self.config.scheduler.name],
            ready=lambda: self.ready,
            other_profiles=self.config.scheduler.other_profiles,
        )
        times = VacancyTimes(self.config.gangs.replace_within, self.config.gangs.late_within)

        def is_held(slurm_node: str) -> bool:
            node = self.engine.snapshot.node_map.last_kubernetes(slurm_node)
            return self.node_controllers.removals.holds(slurm_node) or self.deferred.on_node(node)

        vacancies = GangVacancies(self.engine, self.gangs, self.announcer, clock, times=times, is_held=is_held)
        return barrier, vacancies, scheduling

    def _publish(self) -> None:
        """Publish what the informers see.

        Nothing is published before the first lists are complete: half a list of Nodes is no list of Nodes.
        """
        informers, events = self.informers, self.events

        def node_changed(old: NodeView | None, new: NodeView | None) -> None:
            if informers.nodes.synced:
                events.publish(NodeChanged(old, new))

        informers.pods.on_change(lambda old, new: events.publish(PodChanged(old, new)))
        informers.pods.on_absent(lambda pods: events.publish(PodsAbsent(pods)))
        informers.nodes.on_change(node_changed)
        informers.namespaces.on_change(lambda old, new: events.publish(NamespaceChanged(old, new)))
        informers.device_classes.on_change(lambda old, new: events.publish(DeviceClassChanged(old, new)))
        informers.devices.resource_claims.on_change(lambda old, new: events.publish(ResourceClaimChanged(old, new)))
        informers.pod_groups.on_change(lambda group: events.publish(PodGroupChanged(group)))

    def watchers(self) -> dict[str, Coroutine[None, None, None]]:
        """Return what every replica runs: it keeps the caches up to date, and changes nothing."""
        return {part.name: part.run() for part in self.parts if part.run is not None and part.everywhere}

    def writers(self) -> dict[str, Coroutine[None, None, None]]:
        """Return what runs only where this process may write."""
        return {part.name: part.run() for part in self.parts if part.run is not None and not part.everywhere}

    @property
    def gang_context(self) -> GangContext:
        """Return the site's choices about gangs, the PodGroups, and the Pods of JobSets that have succeeded."""
        return GangContext(
            group=self.informers.pod_groups.group,
            groups_read=self.informers.pod_groups.sources,
            succeeded=self.informers.pods.succeeded,
            jobs=self.config.gangs.jobs,
            largest=self.config.gangs.largest,
        )

    @property
    def ready(self) -> bool:
        """Return whether the cluster's state at the start is known and adopted. Never depends on Slurm."""
        return self.informers.synced and self.pod_controller.ready

    @property
    def restore_suspected(self) -> str:
        """Return what is kept because a restore of etcd may have taken Pods back; ""."""
        return "; ".join(filter(None, (one.restore_suspected for one in self._suspects)))

    async def lead(self, epoch: int) -> None:
        """Begin to write in this epoch.

        Everything is listed once more, as at a start: a watch that fell behind would show Pods as they were before the
        last writes of the previous leader.
        """
        self.state.identity.epoch = epoch
        await self.informers.relist()

    async def adopt(self) -> None:
        """Wait for the first lists, then adopt every Pod of this scheduler that is in them."""
        pods = self.informers.pods
        await self.informers.wait_synced()
        self.node_controllers.controller.remap()
        await asyncio.sleep(0)  # with thousands of Nodes the mapping takes long
        await self._namespaces_known()
        await self.pod_controller.adopt(pods.all())
        turns = CooperativeYield()
        for pod in pods.all():
            await turns.maybe_yield()
            if (now := pods.get(pod.uid)) is not None and pod.uid not in self.deferred:
                self.pod_controllers.pod_changed(None, now)
        self.events.publish(PodsAdopted())

    async def _namespaces_known(self) -> None:
        """Wait for the labels that the policy needs, with a limit: running Pods have to be adopted."""
        policy = self.policy_file.policy
        if policy is not None and policy.pods.needs_namespace_labels:
            with suppress(TimeoutError):
                async with asyncio.timeout(NAMESPACES_WITHIN):
                    await self.informers.namespaces.wait_synced()

    def namespace_changed(self, event: NamespaceChanged) -> None:
        """Translate the waiting Pods of a Namespace again whose labels changed, where the policy reads labels."""
        old, new = event.old, event.new
        policy = self.policy_file.policy
        if new is None or policy is None or not policy.pods.needs_namespace_labels:
            return
        if old is None or old.labels != new.labels:
            self.pod_controller.reconsider(new.name)

    def pod_changed(self, event: PodChanged) -> None:
        """Pass a change of a Pod on, in this order; nothing before the first list of Pods is complete."""
        old, new = event.old, event.new
        slurmd = any(pod is not None and self.informers.slurmd.selects(pod) for pod in (old, new))
        if self.informers.pods.synced:
            if not slurmd:
                self.job_controllers.foreign_pod_changed(old, new)
            self.pod_controller.changed(old, new)
            if self.pod_controller.ready and (new is None or new.uid not in self.deferred):
                self.pod_controllers.pod_changed(old, new)

    def pods_absent(self, event: PodsAbsent) -> None:
        """Pass on which Pods a complete list lacks."""
        pods = event.pods
        self.pod_controller.absent(pods)
        self.pod_controllers.absent(pods)
        self.job_controllers.absent(pods)
        self.node_controllers.controller.slurmd_changed()

    def policy_file_read(self, event: PolicyFileRead) -> None:
        """Announce a policy file that cannot be used where operators find it: on the extender's own Pod."""
        trouble = event.trouble
        own = next((pod for pod in self.informers.pods.all() if pod.name == self.io_context.host), None)
        if own is None or not self.pod_controller.ready:
            return  # not in a Pod, or not leading
        stays = "The last valid one stays in force" if self.policy_file.policy is not None else NO_POLICY.rstrip(".")
        text = f"The policy file is invalid: {trouble}. {stays}." if trouble else "The policy file is valid again."
        reason = Reason.POLICY_INVALID if trouble else Reason.POLICY_RESTORED
        announcement = Announcement("Pod", own.namespace, own.name, own.uid, reason, text, warning=bool(trouble))
        self.announcer.announce(announcement)

    def device_class_changed(self, event: DeviceClassChanged) -> None:
        """Judge gated Pods again where a DeviceClass names another extended resource than before."""
        old, new = event.old, event.new
        if self.ready and (old.resource if old else "") != (new.resource if new else ""):
            self.pod_controllers.gates.classes_changed(self.informers.pods.all())

    def _reconsider(self, pods: Sequence[PodView]) -> None:
        """Judge and translate Pods again of whose ResourceClaims more is known."""
        self.pod_controller.reconsider_pods(pods)
        for pod in pods:
            if pod.uid not in self.deferred:
                self.pod_controllers.gates.reconsider(pod)

    def _gang_waits_for(self, key: str) -> str:
        return self.gangs.waits_for(key)

    def _is_on_no_node(self, resource: str) -> bool:
        """Return whether no node needs the resource: a licence, or devices that kube-scheduler allocates itself."""
        by_class = resource.startswith(CLASS_RESOURCE) or self.informers.device_classes.offers(resource)
        return by_class or self._licensed(resource)

    def _licensed(self, resource: str) -> bool:
        policy = self.policy_file.policy
        return policy is not None and policy.licensed(resource)

    def _fresh(self) -> bool:
        """Return whether Pods and Nodes are up to date."""
        return self.ready and not self.informers.trouble

    def _settled(self) -> bool:
        return (
            self.ready
            and not self.engine.placeholders.in_state(State.UNSURE)
            and self.job_controllers.foreign_pods.settled
        )
