"""List every part that the process runs, its controllers and other tasks, and the events that each subscribes to.

The order of the list is the order in which the handlers of one event are called. `Assembly.pod_changed` passes a Pod on
to several controllers in a fixed order. Before the list come the subscriptions that the engine makes for itself
(`extender/engine`), after it those of hooks, metrics and traces.
"""

from __future__ import annotations

from extender.assembly.parts import Part
from extender.assembly.process import Assembly
from extender.runtime import topics as t


def all_parts(a: Assembly) -> tuple[Part, ...]:
    """Return every part of the process, in the order in which events reach them."""
    return (*_caches(a), *_workloads(a), *_nodes(a), *_pods(a), *_jobs(a), *_changes(a))


def _caches(a: Assembly) -> tuple[Part, ...]:
    """Return what keeps the view of the cluster up to date."""
    informers = a.informers
    policy = (
        (
            Part("policy", a.policy_file.run, everywhere=True),
            Part("namespaces", informers.namespace_reflector.run, everywhere=True),
        )
        if a.policy_file.given
        else ()
    )
    devices = (Part("devices", informers.devices.run, everywhere=True),) if informers.devices.device_map else ()
    groups = (Part("PodGroups", informers.pod_groups.run, everywhere=True),) if informers.pod_groups.sources else ()
    return (
        Part("pods", informers.pod_reflector.run, everywhere=True),
        Part("nodes", informers.node_reflector.run, everywhere=True),
        Part("device classes", informers.class_reflector.run, everywhere=True),
        *devices,
        *groups,
        *policy,
    )


def _workloads(a: Assembly) -> tuple[Part, ...]:
    """Return the engine, and what turns Pods into workloads."""
    return (
        Part("engine", a.engine.run),
        Part(
            "candidates of members",
            None,
            (
                (t.PlaceholderForgotten, a.member_candidates.forgotten),
                (t.PlaceholderChanged, a.member_candidates.placeholder_changed),
            ),
        ),
        Part(
            "candidates of kube-scheduler",
            None,
            (
                (t.PlaceholderForgotten, a.candidates.forgotten),
                (t.PodRemoved, a.candidates.removed),
            ),
        ),
        Part("members of gangs", a.gangs.run, ((t.PlaceholderChanged, a.gangs.placeholder_changed),)),
        Part(
            "gang barrier",
            a.gang_barrier.run,
            (
                (t.PodChanged, a.gang_barrier.pod_changed),
                (t.NodeChanged, a.gang_barrier.node_changed),
                (t.PodFiltered, a.gang_barrier.filtered),
                (t.PlaceholderChanged, a.gang_barrier.placeholder_changed),
                (t.PlaceholderForgotten, a.gang_barrier.forgotten),
            ),
        ),
        Part(
            "vacant slots of gangs",
            a.gang_vacancies.run,
            (
                (t.PlaceholderChanged, a.gang_vacancies.placeholder_changed),
                (t.PlaceholderForgotten, a.gang_vacancies.forgotten),
            ),
        ),
        Part(
            "gangs with failed nodes",
            a.job_controllers.gang_node_failures.run,
            (
                (t.SnapshotChanged, a.job_controllers.gang_node_failures.snapshot_changed),
                (t.PlaceholderForgotten, a.job_controllers.gang_node_failures.forgotten),
            ),
        ),
        Part(
            "unknown members of gangs",
            a.unknown_members.run,
            (
                (t.MembersUnknown, a.unknown_members.found),
                (t.PlaceholderChanged, a.unknown_members.placeholder_changed),
                (t.PodsAdopted, a.unknown_members.adopted),
                (t.MassDeletionConfirmed, a.unknown_members.confirmed),
            ),
        ),
        Part(
            "pod controller",
            a.pod_controller.run,
            (
                (t.PlaceholderChanged, a.pod_controller.placeholder_changed),
                (t.MassDeletionConfirmed, a.pod_controller.confirmed),
                (t.PodGroupChanged, a.pod_controller.pod_group_changed),
                (t.PolicyChanged, lambda _event: a.pod_controller.reconsider()),
            ),
        ),
    )


def _nodes(a: Assembly) -> tuple[Part, ...]:
    """Return what compares Nodes with Slurm nodes, and drains them."""
    nodes = a.node_controllers
    return (
        Part(
            "node controller",
            nodes.controller.run,
            (
                (t.PlaceholderChanged, nodes.controller.placeholder_changed),
                (t.JobMissing, nodes.controller.job_missing),
                (t.NodeChanged, nodes.controller.kube_changed),
            ),
            everywhere=True,
        ),
        Part(
            "health of nodes",
            nodes.health.run,
            (
                (t.NodeChanged, nodes.health.node_changed),
                (t.SnapshotChanged, nodes.health.snapshot_changed),
                (t.DrainFound, nodes.health.drain_found),
            ),
        ),
        Part("native jobs", nodes.native_jobs.run, ((t.JobStatesPolled, nodes.native_jobs.polled),)),
        Part(
            "marks on Nodes",
            nodes.marks.run,
            (
                (t.NodeChanged, nodes.marks.node_changed),
                (t.SnapshotChanged, nodes.marks.snapshot_changed),
                (t.NativeJobsChanged, nodes.marks.native_jobs_changed),
            ),
        ),
        Part(
            "external nodes",
            nodes.external_nodes.run,
            (
                (t.NodeChanged, nodes.external_nodes.node_changed),
                (t.PodChanged, nodes.external_nodes.pod_changed),
            ),
        ),
        Part(
            "evidence of fences",
            nodes.fence_evidence.run,
            (
                (t.PlaceholderChanged, nodes.fence_evidence.placeholder_changed),
                (t.PlaceholderForgotten, nodes.fence_evidence.forgotten),
                (t.SnapshotChanged, nodes.fence_evidence.snapshot_changed),
            ),
        ),
        Part("unsafe jobs", None, ((t.PlaceholderChanged, nodes.unsafe_jobs.placeholder_changed),)),
        Part(
            "fences",
            nodes.fences.run,
            (
                (t.JobEndSeen, lambda event: nodes.fences.job_ended(event.job_id)),
                (t.PlaceholderChanged, nodes.fences.placeholder_changed),
            ),
        ),
        Part(
            "removals",
            nodes.removals.run,
            (
                (t.PodRemoved, lambda event: nodes.removals.removed(event.workload, event.pod)),
                (t.PodChanged, nodes.removals.pod_changed),
                (t.NodeChanged, nodes.removals.node_changed),
                (t.DrainFound, lambda event: nodes.removals.found(event.slurm_node, event.reason)),
            ),
        ),
        Part(
            "holds for deferred Pods",
            nodes.deferred_pod_holds.run,
            ((t.JobStatesPolled, nodes.deferred_pod_holds.polled),),
        ),
        Part("mapping of slurmd Pods", None, ((t.PodChanged, nodes.slurmd_pod_changed),)),
    )


def _pods(a: Assembly) -> tuple[Part, ...]:
    """Return what writes to Pods or looks after placed ones."""
    pods, devices = a.pod_controllers, a.device_controllers
    return (
        Part("requeue", pods.requeue.run, ((t.PodsAdopted, pods.requeue.adopted),)),
        Part(
            "annotation repair",
            pods.annotation_repair.run,
            (
                (t.PlaceholderChanged, pods.annotation_repair.placeholder_changed),
                (t.PodChanged, pods.annotation_repair.pod_changed),
                (t.PlaceholderForgotten, pods.annotation_repair.forgotten),
            ),
        ),
        Part(
            "start-up deadline",
            pods.startup_deadline.run,
            (
                (t.PodChanged, pods.startup_deadline.pod_changed),
                (t.PlaceholderChanged, pods.startup_deadline.placeholder_changed),
                (t.PodsAdopted, pods.startup_deadline.adopted),
            ),
        ),
        Part(
            "unbound allocations",
            pods.unbound_allocations.run,
            ((t.PlaceholderChanged, pods.unbound_allocations.placeholder_changed),),
        ),
        *(
            (
                Part(
                    "status of PodGroups",
                    pods.group_status.run,
                    (
                        (t.PodChanged, pods.group_status.pod_changed),
                        (t.PlaceholderChanged, pods.group_status.placeholder_changed),
                        (t.PodGroupChanged, pods.group_status.group_changed),
                    ),
                ),
            )
            if a.informers.pod_groups.sources
            else ()
        ),
        *(
            (
                Part(
                    "ResourceClaims",
                    devices.resource_claims.run,
                    (
                        (t.ResourceClaimChanged, devices.resource_claims.resource_claim_changed),
                        (t.PlaceholderChanged, devices.resource_claims.placeholder_changed),
                        (t.PodChanged, devices.resource_claims.pod_changed),
                        (t.PlaceholderForgotten, devices.resource_claims.forgotten),
                    ),
                ),
                Part(
                    "DeviceReminders",
                    devices.reminders.run,
                    ((t.ResourceClaimChanged, devices.reminders.resource_claim_changed),),
                ),
            )
            if a.informers.devices.device_map
            else ()
        ),
        Part("explanations", pods.explanations.run, ((t.PlaceholderForgotten, pods.explanations.forgotten),)),
    )


def _jobs(a: Assembly) -> tuple[Part, ...]:
    """Return what reads and ends jobs."""
    jobs = a.job_controllers
    return (
        Part(
            "foreign Pods",
            jobs.foreign_pods.run,
            (
                (t.MassDeletionConfirmed, jobs.foreign_pods.confirmed),
                (t.UnmarkedJobRead, lambda event: jobs.foreign_pods.found(event.job)),
                (t.JobStatesPolled, jobs.foreign_pods.polled),
            ),
        ),
        Part("overcommitment", jobs.overcommitment.run),
        Part(
            "orphans",
            jobs.orphans.run,
            (
                (t.MassDeletionConfirmed, jobs.orphans.confirmed),
                (t.JobStatesPolled, jobs.orphans.polled),
            ),
        ),
        Part("restore reports", a.restore_reports.run),
        Part("job reads for hooks", jobs.hook_reads.run),
        Part("job records", jobs.records.run, ((t.WorkloadEnded, jobs.records.job_ended),)),
        Part(
            "job controller",
            jobs.controller.run,
            (
                (t.JobStatesWanted, jobs.controller.states_wanted),
                (t.PlaceholderChanged, jobs.controller.placeholder_changed),
                (t.NonPlaceholderJobRead, lambda _event: jobs.controller.give_way()),
            ),
        ),
    )


def _changes(a: Assembly) -> tuple[Part, ...]:
    """Return what handles changes in a fixed order, after all others."""
    pods, jobs = a.pod_controllers, a.job_controllers
    return (
        Part(
            "gates",
            pods.gates.run,
            ((t.NodeChanged, lambda event: pods.gates.node_changed(event.old, event.new)),),
        ),
        Part(
            "Pods: foreign Pods, the pod controller, gates and warnings, one after the other",
            None,
            (
                (t.PodChanged, a.pod_changed),
                (t.PodChanged, lambda event: jobs.deleted_pods.changed(event.old, event.new)),
                (t.PodsAbsent, a.pods_absent),
                (t.DeferredPodsAdopted, pods.deferred_adopted),
                (t.NamespaceChanged, a.namespace_changed),
                (t.DeviceClassChanged, a.device_class_changed),
            ),
        ),
        Part("events", a.announcer.run, ((t.PolicyFileRead, a.policy_file_read),)),
    )
