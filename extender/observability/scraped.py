"""What `/metrics` asks of the process at each scrape, beside what is counted as it happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from extender.assembly import Assembly
from extender.engine.missing_jobs import Orphan
from extender.kube.reflector import ReflectorStatus
from extender.observability.metrics.described import Described, Sort
from extender.observability.metrics.registry import Metrics
from extender.runtime.topics import PlaceholderChanged, PlaceholderForgotten

Read = Callable[[Assembly], Mapping[str, float]]

CERTIFICATES = Described(
    "certificate_expiry_timestamp_seconds",
    Sort.GAUGE,
    "When the certificate that is served ends, by the setting of its address.",
    ("kind",),
)


def _counter(name: str, text: str) -> Described:
    return Described(name, Sort.COUNTER, text, ("kind",))


def _gauge(name: str, text: str) -> Described:
    return Described(name, Sort.GAUGE, text, ("kind",))


REHEARSED = Described(
    "dry_run_translations_total",
    Sort.COUNTER,
    "Pods that were translated by `serve --dry-run`, by what would have come of it: `submitted`, `refused`.",
    ("kind",),
)
REHEARSED_WAITING = Described(
    "dry_run_pods", Sort.GAUGE, "Pods without a node in a dry run, by what would come of them.", ("kind",)
)


def _informers(assembly: Assembly) -> dict[str, ReflectorStatus]:
    informers = {"pods": assembly.informers.pod_reflector.status, "nodes": assembly.informers.node_reflector.status}
    if assembly.policy_file.given:
        informers["namespaces"] = assembly.informers.namespace_reflector.status
    return informers


def _ages(assembly: Assembly) -> dict[str, float]:
    now = assembly.io_context.clock.now()
    heard = {what: status.last_heard for what, status in _informers(assembly).items()}
    return {what: max(0.0, now - at) for what, at in heard.items() if at is not None}


def _found(assembly: Assembly) -> dict[str, float]:
    orphans, nodes = assembly.state.missing_jobs.count, assembly.about_nodes.controller
    return {
        "job": orphans.found[Orphan.JOB],
        "pod": orphans.found[Orphan.POD],
        "claim": assembly.about_pods.records.drift["found"],
        "drain": nodes.drift["found"],
    }


def _repaired(assembly: Assembly) -> dict[str, float]:
    orphans, nodes = assembly.state.missing_jobs.count, assembly.about_nodes.controller
    return {
        "job": orphans.ended[Orphan.JOB],
        "pod": orphans.ended[Orphan.POD],
        "claim": assembly.about_pods.records.drift["repaired"],
        "drain": nodes.drift["repaired"],
    }


TABLE: Mapping[Described, Read] = {
    _counter("orphans_found_total", "Jobs without a Pod, and Pods without a job, by which is left."): (
        lambda assembly: assembly.state.missing_jobs.count.found
    ),
    _counter("orphans_held_total", "Of those, how many were held back because there were many."): (
        lambda assembly: assembly.state.missing_jobs.count.held
    ),
    _counter("orphans_ended_total", "Of those, how many were ended."): (
        lambda assembly: assembly.state.missing_jobs.count.ended
    ),
    _counter(
        "orphans_spared_total",
        "Of those, how many were let be: in a dry run, or since the Pod is there after all.",
    ): lambda assembly: assembly.state.missing_jobs.count.spared,
    _counter(
        "drift_found_total",
        "What was found otherwise than it was left: a job without a Pod (`job`), a Pod without a job (`pod`), what was "
        "written on a running Pod (`claim`), a drain of ours that somebody lifted (`drain`).",
    ): _found,
    _counter("drift_repaired_total", "Of those, how many were set right: ended, written again, drained again."): (
        _repaired
    ),
    _counter(
        "external_node_steps_total",
        "Nodes that were registered in Slurm, changed, made anew and taken out again there; and refusals.",
    ): lambda assembly: dict(assembly.about_nodes.external_nodes.done),
    _counter("policy_loads_total", "Times that a changed policy file was read, by whether it could be used."): (
        lambda assembly: dict(assembly.policy_file.loads)
    ),
    _counter("kube_lists_total", "Complete lists that were read from the API server."): (
        lambda assembly: {what: status.lists for what, status in _informers(assembly).items()}
    ),
    _counter(
        "kube_watches_total", "Watches of the API server that were begun; each lives for minutes when all is well."
    ): lambda assembly: {what: status.watches for what, status in _informers(assembly).items()},
    _counter(
        "kube_relists_total", "Watches that could not go on from where they were, so that everything was listed again."
    ): lambda assembly: {what: status.relists.total() for what, status in _informers(assembly).items()},
    _counter("kube_events_total", "Events by what became of them: `sent`, `dropped`, `failed`."): (
        lambda assembly: {
            "sent": assembly.announcer.status.sent,
            "dropped": assembly.announcer.status.dropped,
            "failed": assembly.announcer.status.failed,
        }
    ),
    _counter("pod_conditions_total", "Conditions written on Pods: why they wait, and that they do no more."): (
        lambda assembly: {
            "written": assembly.about_pods.explanations.written,
            "failed": assembly.about_pods.explanations.failed,
        }
    ),
    _gauge("pods_waiting", "Pods that wait, by why: the reasons of their condition (docs/why.md)."): (
        lambda assembly: assembly.about_pods.explanations.by_cause()
    ),
    _gauge(
        "kube_silence_seconds",
        "Time since the API server last told anything of a kind: a list, a change, a bookmark (one a minute).",
    ): _ages,
    _gauge(
        "policy_usable", "1 while the policy file as it is now is in force; 0 while the last good one is, or none."
    ): lambda assembly: {"policy": not assembly.policy_file.trouble},
    _gauge("node_mapping_problems", "Statements about which Node a Slurm node is that cannot be true."): (
        lambda assembly: {"mapping": len(assembly.engine.snapshot.node_map.problems)}
    ),
    _gauge(
        "nodes_without_partner", "Nodes that are no node of Slurm (kubernetes), and nodes of Slurm that are no Node "
        "(slurm)."
    ): lambda assembly: {
        "kubernetes": len(assembly.engine.snapshot.node_map.without_slurm),
        "slurm": len(assembly.engine.snapshot.node_map.without_kubernetes),
    },
    _gauge(
        "external_nodes",
        "Nodes registered in Slurm and as they are to be there; that wait for a step; that cannot be (unfit).",
    ): lambda assembly: assembly.about_nodes.external_nodes.by_state(),
    _gauge("missing_pods", "Pods that a list of the API server lacked, too many at once for their jobs to be ended."): (
        lambda assembly: {"missing": len(assembly.pod_controller.missing)}
    ),
    _gauge("foreign_pods", "Pods that Slurm did not place, by whether a job holds something for them."): (
        lambda assembly: assembly.about_jobs.overcommitment.pods()
    ),
    _gauge(
        "foreign_pods_unheld",
        "What Pods ask for that Slurm did not place and holds nothing for: cpus, memory_mb, GRES.",
    ): lambda assembly: assembly.about_jobs.overcommitment.unheld(),
    _gauge(
        "foreign_pods_nodes",
        "Nodes with such Pods that Slurm does not hold: drained, or given away all the same (alarm).",
    ): lambda assembly: assembly.about_jobs.overcommitment.nodes_by_state(),
    _gauge("held_nodes", "Slurm nodes that are kept from new jobs, by how far that is."): (
        lambda assembly: assembly.about_nodes.controller.holds_by_state()
    ),
    _gauge(
        "pods_not_starting",
        "Pods that have their node and some container of which has yet to start: within their limit (`starting`), or "
        "beyond it (`late`).",
    ): lambda assembly: assembly.about_pods.starts.by_state(),
    _gauge("nodes_unavailable", "Nodes that Slurm gives nothing new, by the reason in their condition."): (
        lambda assembly: assembly.about_nodes.marks.unavailable_by_reason()
    ),
    _gauge("node_locks", "Nodes that are locked for Slurm's own jobs, and the jobs for which they are (nodes.lock)."): (
        lambda assembly: assembly.about_nodes.native_jobs.by_lock()
    ),
    _gauge("commands_waiting", "Commands that wait for their turn, by whom they are for."): (
        lambda assembly: assembly.engine.waiting_commands
    ),
    _gauge("reads_waiting", "Jobs that wait to be read."): (
        lambda assembly: {"jobs": assembly.about_jobs.controller.reads_waiting}
    ),
    _gauge("events_waiting", "Events that wait to be sent."): lambda assembly: {"events": assembly.announcer.waiting},
}  # fmt: skip


def connect(metrics: Metrics, assembly: Assembly) -> None:
    """From now on this process is counted and asked."""
    assembly.events.subscribe(PlaceholderChanged, lambda event: metrics.moved(event.before, event.after))
    assembly.events.subscribe(PlaceholderForgotten, lambda event: metrics.forgotten(event.key))
    assembly.io_context.kubernetes.observe = metrics.kube_answered
    assembly.io_context.slurm.observe(metrics.slurm_answered)
    sources = metrics.sources
    sources.placeholders = assembly.engine.placeholders.all.values
    sources.brake_held = lambda: assembly.guard.engaged
    sources.ready = lambda: assembly.ready
    sources.last_poll = lambda: assembly.slurm_health.polled_at
    sources.further |= {one: partial(read, assembly) for one, read in TABLE.items()}
