"""Collect the values of `/metrics` that are read from the process at each scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from extender.assembly import Assembly
from extender.engine.missing_jobs import Orphan
from extender.kube.reflector import ReflectorStatus
from extender.observability.gangs import empty_slots, gangs_by_state
from extender.observability.metrics.described import Described, Sort
from extender.observability.metrics.registry import Metrics
from extender.observability.metrics.scrape import Sources, Values, timestamp
from extender.observability.metrics.slurm_labels import SlurmLabels
from extender.runtime.topics import PlaceholderChanged, PlaceholderForgotten

Read = Callable[[Assembly], Mapping[str, float] | Mapping[tuple[str, ...], float]]

CERTIFICATES = Described(
    "certificate_expiry_timestamp_seconds",
    Sort.GAUGE,
    "Unix time at which the served certificate expires, by the configuration key of its address.",
    ("listener",),
)
PENDING_PODS = Described(
    "pending_pods", Sort.GAUGE, "Pods that wait, by the reason in their condition (docs/reference/why.md).", ("reason",)
)


def _counter(name: str, text: str, *labels: str) -> Described:
    return Described(name, Sort.COUNTER, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Described:
    return Described(name, Sort.GAUGE, text, labels)


DRY_RUN_TRANSLATIONS = _counter(
    "dry_run_translations_total",
    "Pods and gangs that `serve --dry-run` has judged, each gang once, by what it would have done: `submitted`, "
    "`refused`, `incomplete` (Pods of a gang are missing).",
    "result",
)
DRY_RUN_PODS = _gauge(
    "dry_run_pods",
    "Pods without a node in a dry run, by what would be done: `submitted`, `refused`, `incomplete` (Pods of their gang "
    "are missing).",
    "result",
)


def _informers(assembly: Assembly) -> dict[str, ReflectorStatus]:
    informers = {"pods": assembly.informers.pod_reflector.status, "nodes": assembly.informers.node_reflector.status}
    if assembly.policy_file.given:
        informers["namespaces"] = assembly.informers.namespace_reflector.status
    return informers


def _last_messages(assembly: Assembly) -> dict[str, float]:
    heard = {what: status.last_heard for what, status in _informers(assembly).items()}
    return {what: timestamp(at, assembly.io_context.clock) for what, at in heard.items() if at is not None}


def _orphans(assembly: Assembly) -> dict[tuple[str, ...], float]:
    count = assembly.state.missing_jobs.count
    results = {"found": count.found, "held": count.held, "ended": count.ended, "spared": count.spared}
    return {(one.value, result): counted[one] for result, counted in results.items() for one in Orphan}


def _drift(assembly: Assembly) -> dict[tuple[str, ...], float]:
    orphans = assembly.state.missing_jobs.count
    notes, drains = assembly.pod_controllers.annotation_repair.drift, assembly.node_controllers.controller.drift
    return {
        ("job", "found"): orphans.found[Orphan.JOB],
        ("job", "repaired"): orphans.ended[Orphan.JOB],
        ("pod", "found"): orphans.found[Orphan.POD],
        ("pod", "repaired"): orphans.ended[Orphan.POD],
        ("annotations", "found"): notes["found"],
        ("annotations", "repaired"): notes["repaired"],
        ("drain", "found"): drains["found"],
        ("drain", "repaired"): drains["repaired"],
    }


TABLE: Mapping[Described, Read] = {
    _counter(
        "orphans_total",
        "Placeholder jobs without a Pod (`job`) and Pods without their job (`pod`): each is counted as `found` once, "
        "and again as `held` for the guard, `ended`, or `spared` (a dry run, or its Pod exists).",
        "object",
        "result",
    ): _orphans,
    _counter(
        "drift_total",
        "Objects that differ from what the extender left: a job without a Pod (`job`), a Pod without a job (`pod`), "
        "edited status annotations (`annotations`), a lifted drain (`drain`); each is counted as `found`, and as "
        "`repaired`.",
        "object",
        "result",
    ): _drift,
    _counter(
        "external_node_operations_total",
        "Operations of node registration in Slurm, by operation and by `ok` or `refused`.",
        "operation",
        "result",
    ): lambda assembly: dict(assembly.node_controllers.external_nodes.done),
    _counter("policy_loads_total", "Reads of a changed policy file, by result: `valid`, `invalid`.", "result"): (
        lambda assembly: dict(assembly.policy_file.loads)
    ),
    _counter("kube_lists_total", "Complete lists read from the API server.", "resource"): (
        lambda assembly: {what: status.lists for what, status in _informers(assembly).items()}
    ),
    _counter(
        "kube_watches_total", "Watches opened on the API server; each lives for minutes when all is well.", "resource"
    ): lambda assembly: {what: status.watches for what, status in _informers(assembly).items()},
    _counter("kube_relists_total", "Watches that could not be resumed, followed by a new list.", "resource"): (
        lambda assembly: {what: status.relists.total() for what, status in _informers(assembly).items()}
    ),
    _counter("kube_events_total", "Kubernetes Events, by result: `sent`, `dropped`, `failed`.", "result"): (
        lambda assembly: {
            "sent": assembly.announcer.status.sent,
            "dropped": assembly.announcer.status.dropped,
            "failed": assembly.announcer.status.failed,
        }
    ),
    _counter(
        "pod_condition_writes_total", "Writes of the condition that says why a Pod waits, by result.", "result"
    ): lambda assembly: {
        "written": assembly.pod_controllers.explanations.written,
        "failed": assembly.pod_controllers.explanations.failed,
    },
    _gauge(
        "kube_last_message_timestamp_seconds",
        "Unix time of the last list, change or bookmark from the API server; a bookmark comes every minute.",
        "resource",
    ): _last_messages,
    _gauge("policy_usable", "1 while the present policy file is in force; 0 while the last valid one is, or none."): (
        lambda assembly: {"": not assembly.policy_file.trouble}
    ),
    _gauge("node_mapping_problems", "Contradicting statements about which Node a Slurm node is."): (
        lambda assembly: {"": len(assembly.engine.snapshot.node_map.problems)}
    ),
    _gauge(
        "unmapped_nodes",
        "Nodes that are no Slurm node (`kubernetes`), and Slurm nodes that are no Node (`slurm`).",
        "side",
    ): lambda assembly: {
        "kubernetes": len(assembly.engine.snapshot.node_map.without_slurm),
        "slurm": len(assembly.engine.snapshot.node_map.without_kubernetes),
    },
    _gauge(
        "external_nodes",
        "Nodes for registration in Slurm: `registered`, waiting for an operation (its name), or `unfit`.",
        "state",
    ): lambda assembly: assembly.node_controllers.external_nodes.by_state(),
    _gauge("missing_pods", "Pods absent from a list of the API server, too many at once for their jobs to be ended."): (
        lambda assembly: {"": len(assembly.pod_controller.missing)}
    ),
    _gauge("foreign_pods", "Pods that Slurm did not place, by whether a job reserves their resources.", "state"): (
        lambda assembly: assembly.job_controllers.overcommitment.pods()
    ),
    _gauge("foreign_pods_unreserved_cpus", "CPUs requested by foreign Pods for which no job reserves them."): (
        lambda assembly: {"": assembly.job_controllers.overcommitment.unreserved().cpus}
    ),
    _gauge("foreign_pods_unreserved_memory_bytes", "Memory requested by foreign Pods for which no job reserves it."): (
        lambda assembly: {"": assembly.job_controllers.overcommitment.unreserved().memory_mb * 2**20}
    ),
    _gauge("foreign_pods_unreserved_gres", "GRES requested by foreign Pods for which no job reserves them.", "gres"): (
        lambda assembly: dict(assembly.job_controllers.overcommitment.unreserved().gres)
    ),
    _gauge(
        "foreign_pod_nodes",
        "Nodes with unreserved foreign Pods, by whether the Slurm node is `drained` or could not be (`undrained`).",
        "state",
    ): lambda assembly: assembly.job_controllers.overcommitment.nodes_by_state(),
    _gauge(
        "fence_nodes", "Slurm nodes with a working fence (`fenced`), and without one (`unfenced`).", "state"
    ): lambda assembly: dict(
        zip(("fenced", "unfenced"), assembly.node_controllers.fence_evidence.counts(), strict=True)
    ),
    _gauge(
        "gangs",
        "Gangs by state: `incomplete` (Pods are missing), `waiting` for nodes, `granted` (nodes, not all bound), "
        "`bound`, `ending`, `refused`.",
        "state",
    ): lambda assembly: gangs_by_state(assembly.gangs.lacking(), assembly.engine.placeholders.all),
    _gauge("gang_empty_slots", "Slots of running jobs of gangs that no live Pod has."): (
        lambda assembly: {"": empty_slots(assembly.gangs.lacking(), assembly.engine.placeholders.all)}
    ),
    _counter(
        "gang_barriers_total",
        "Attempts to bind all members of a gang: `passed`, `node_busy`, `expired` (kube-scheduler did not accept a "
        "member within `gangs.bindWithin`), `broken` (a member was not accepted in time after others were bound).",
        "result",
    ): lambda assembly: dict(assembly.gang_barrier.outcomes),
    _counter(
        "device_conflicts_total",
        "Grants with a device that another ResourceClaim held; the grant is released before its Pod is bound.",
    ): lambda assembly: {"": assembly.member_devices.conflicts},
    _gauge("drained_nodes", "Slurm nodes that the extender keeps drained, by the state of the drain.", "state"): (
        lambda assembly: assembly.node_controllers.controller.holds_by_state()
    ),
    _gauge(
        "starting_pods",
        "Bound Pods with a container that has never started: within the limit (`in_time`), or beyond it (`overdue`).",
        "state",
    ): lambda assembly: assembly.pod_controllers.startup_deadline.by_state(),
    _gauge("unavailable_nodes", "Nodes on which Slurm starts nothing, by the reason in their condition.", "reason"): (
        lambda assembly: assembly.node_controllers.marks.unavailable_by_reason()
    ),
    _gauge("native_jobs", "Native jobs for which Nodes have the native-job taint."): (
        lambda assembly: {"": assembly.node_controllers.native_jobs.by_lock()["jobs"]}
    ),
    _gauge("native_job_nodes", "Nodes with the native-job taint."): (
        lambda assembly: {"": assembly.node_controllers.native_jobs.by_lock()["nodes"]}
    ),
    _gauge("pending_commands", "Commands that wait in a work queue, by the API that they are for.", "target"): (
        lambda assembly: assembly.engine.pending_commands.waiting
    ),
    _gauge("deferred_pods", "Pods of the start that are not adopted, because their owner cannot be read."): (
        lambda assembly: {"": len(assembly.deferred)}
    ),
    _gauge("pending_job_reads", "Slurm jobs that wait to be read."): (
        lambda assembly: {"": assembly.job_controllers.controller.reads_waiting}
    ),
    _gauge("pending_events", "Kubernetes Events that wait to be sent."): lambda assembly: {
        "": assembly.announcer.waiting
    },
}  # fmt: skip


def _pending_pods(assembly: Assembly, labels: SlurmLabels) -> Mapping[tuple[str, ...], float]:
    workloads = assembly.engine.placeholders.all
    waiting = assembly.pod_controllers.explanations.waiting()
    found = ((workloads.get(key), cause) for key, cause in waiting)
    return Counter(labels.values(p.request if p is not None else None, cause) for p, cause in found)


def connect(
    metrics: Metrics,
    assembly: Assembly,
    *,
    leads: Callable[[], bool],
    lease_transitions: Callable[[], int] = lambda: 0,
    further: Mapping[Described, Values] = MappingProxyType({}),
) -> None:
    """Connect the metrics to this process."""
    assembly.events.subscribe(PlaceholderChanged, lambda event: metrics.moved(event.before, event.after))
    assembly.events.subscribe(PlaceholderForgotten, lambda event: metrics.forgotten(event.key))
    assembly.io_context.kubernetes.observe(metrics.kube_answered)
    assembly.io_context.slurm.observe(metrics.slurm_answered)
    pending = replace(PENDING_PODS, labels=metrics.labels.names(*PENDING_PODS.labels))
    metrics.read_from(
        Sources(
            placeholders=assembly.engine.placeholders.all.values,
            mass_deletion_guard_active=lambda: assembly.mass_deletion_guard.engaged,
            ready=lambda: assembly.ready,
            last_poll=lambda: assembly.slurm_health.polled_at,
            leads=leads,
            lease_transitions=lease_transitions,
            snapshot=lambda: assembly.engine.snapshot.slurm,
            further={
                pending: partial(_pending_pods, assembly, metrics.labels),
                **{one: partial(read, assembly) for one, read in TABLE.items()},
                **further,
            },
        )
    )
