"""Show the state to operators: implement `http.service.DebugService`. Values are ready for JSON; secrets are hidden."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from extender.assembly import Assembly
from extender.domain.election import LeaseRecord
from extender.domain.nodes.fences import weak
from extender.domain.placeholder import Placeholder, State
from extender.http.console_inspection import ConsoleInspection
from extender.http.gang_inspection import GangInspection
from extender.http.queue_inspection import QueueInspection
from extender.http.service import Check, ConsoleQuery
from extender.kube.reflector import ReflectorStatus
from extender.kube.store import NodeStore, PodStore

POLL_OVERDUE = 15.0
"""Seconds without an answered poll before the check on Slurm fails."""


class LeaderStatus(Protocol):
    """Return whether this replica leads, and which one does; `server.election.Election` is one."""

    @property
    def leading(self) -> bool:
        """Return whether this replica holds the Lease."""
        ...

    @property
    def leader(self) -> LeaseRecord | None:
        """Return the Lease as last read; `None`: it has no holder, as far as is known."""
        ...


class ReplicaStatus(Protocol):
    """Describe this replica among the others; `server.replica.Replica` is one."""

    @property
    def election(self) -> LeaderStatus:
        """Return the state of the election."""
        ...

    def checks(self) -> Sequence[Check]:
        """Return the checks on the election."""
        ...


class Inspection:
    """Reads everything, changes nothing."""

    def __init__(self, assembly: Assembly, replica: ReplicaStatus | None = None) -> None:
        self._assembly = assembly
        self._replica = replica
        self._queue = QueueInspection(assembly.engine, assembly.shares)
        shown = assembly.config.observability.console.namespaces
        self._console = ConsoleInspection(assembly, self._queue, shown)

    @property
    def leader_hint(self) -> str:
        """Return the hint, as `DebugService`: only a leader adopts Pods."""
        if self._replica is None or self._replica.election.leading:
            return ""
        leader = self._replica.election.leader
        return f"this replica is not the leader and knows no placeholder; leader: {leader.holder if leader else 'none'}"

    def placeholders(self) -> Iterator[Mapping[str, Any]]:
        """Return every placeholder as it is now, short, in the order of the Pods' names."""
        return map(_short, sorted(self._assembly.engine.placeholders.all.values(), key=_by_names))

    def placeholder(self, uid: str) -> Mapping[str, Any] | None:
        """Return the placeholder of the Pod with this UID, and its history."""
        engine = self._assembly.engine
        p = engine.placeholders.by_pod(uid)
        if p is None:
            return None
        request = asdict(p.request) if p.request is not None else None
        return {
            **_short(p),
            "why": self._assembly.pod_controllers.explanations.of(p).text,
            "cause": str(self._assembly.pod_controllers.explanations.of(p).cause),
            "attempt": p.attempt,
            "faults": list(p.faults),
            "request": request,
            "candidates": sorted(p.candidates) if p.candidates is not None else None,
            "excluded": list(p.job.excluded_sent) if p.job is not None else [],
            "refusedNodes": sorted(p.refused_nodes),
            "duplicateJobs": sorted(p.duplicate_jobs),
            "history": [{"at": entry.wall, "line": entry.line()} for entry in engine.histories.of(p.key).entries],
        }

    def gangs(self, namespace: str) -> Iterator[Mapping[str, Any]]:
        """Return gangs as they are now, short; `namespace` "" is all of them."""
        return GangInspection(self._assembly).every(namespace)

    def gang(self, uid: str) -> Mapping[str, Any] | None:
        """Return the gang of the Pod with this UID, with its members."""
        return GangInspection(self._assembly).of_pod(uid)

    def nodes(self) -> Mapping[str, Any]:
        """Return Slurm's nodes as last read, the Node of each, faults of the mapping, and the drain holds."""
        snapshot = self._assembly.engine.snapshot
        controller = self._assembly.node_controllers.controller
        return {
            "slurm": [
                {
                    "name": node.name,
                    "kubernetes": snapshot.node_map.kubernetes.get(node.name),
                    "state": "+".join([node.state, *sorted(node.flags)]),
                    "reason": node.reason,
                    "partitions": list(node.partitions),
                    "fenceCalls": self._assembly.node_controllers.fence_evidence.last_calls(node.name),
                }
                for node in sorted(snapshot.slurm.nodes.values(), key=lambda node: node.name)
            ],
            "kubernetesOnly": list(snapshot.node_map.without_slurm),
            "slurmOnly": list(snapshot.node_map.without_kubernetes),
            "external": self._assembly.node_controllers.external_nodes.shown(),
            "problems": list(snapshot.node_map.problems),
            "holds": [
                {"node": hold.name, "state": str(hold.state), "causes": dict(hold.holds)}
                for hold in controller.holds.values()
            ],
            "foreignPods": self._assembly.job_controllers.overcommitment.shown(),
            "nativeJobs": self._assembly.node_controllers.native_jobs.shown(),
            "error": controller.error,
        }

    def orphans(self) -> Mapping[str, Any]:
        """Return jobs without a Pod, and running Pods whose job is missing and that are not ended for it."""
        engine = self._assembly.engine
        return {
            "dryRun": self._assembly.config.orphans.dry_run,
            "jobs": self._assembly.job_controllers.orphans.shown(),
            "pods": [
                _short(p)
                for key in sorted(self._assembly.state.missing_jobs.held)
                if (p := engine.placeholders.get(key)) is not None
            ],
        }

    async def queue(self) -> Mapping[str, Any]:
        """Return the partitions, and the Pods that wait for each by reason."""
        return await self._queue.queue()

    async def shares(self, accounts: Sequence[str]) -> Mapping[str, Any]:
        """Return fair shares and limits, as Slurm reports them. Raises `PortError`."""
        return await self._queue.shares(accounts)

    async def console(self, query: ConsoleQuery) -> Mapping[str, Any]:
        """Return the rows, as `DebugService`: none on a replica that does not lead."""
        if hint := self.leader_hint:
            return {"error": hint, "workloads": [], "nodes": [], "partitions": []}
        return {"error": "", **await self._console.state(query)}

    def console_pod(self, uid: str) -> Mapping[str, Any] | None:
        """Return the timeline of this Pod, if the console may show it."""
        return self._console.pod(uid)

    def configuration(self) -> Mapping[str, Any]:
        """Return the effective configuration, secrets hidden."""
        return self._assembly.config.model_dump(mode="json", by_alias=True)

    def checks(self) -> Sequence[Check]:
        """Return the readiness checks: the API server decides; Slurm is shown, and never decides."""
        assembly, informers = self._assembly, self._assembly.informers
        polled, now = assembly.slurm_health.polled_at, assembly.io_context.clock.now()
        age = None if polled is None else now - polled
        held = assembly.mass_deletion_guard.engaged
        adopted, trouble = assembly.pod_controller.ready, assembly.pod_controller.trouble
        silent = informers.trouble
        follows = self._replica is not None and not self._replica.election.leading
        how_far = f"{'every Pod' if adopted else 'not every Pod'} of the first list is adopted"
        return [
            Check("cluster", True, assembly.cluster),
            Check("pods", informers.pods.synced, _mirrored(informers.pods, informers.pod_reflector.status, "Pods")),
            Check(
                "nodes", informers.nodes.synced, _mirrored(informers.nodes, informers.node_reflector.status, "Nodes")
            ),
            Check("kubernetes", not silent, silent, required=False),
            *self._pod_groups(),
            *(self._replica.checks() if self._replica is not None else ()),
            Check("adopted", adopted or follows, f"{how_far}{'; ' if trouble else ''}{trouble}", required=not follows),
            Check(
                "slurm",
                age is not None and age < POLL_OVERDUE and not assembly.slurm_health.error,
                assembly.slurm_health.error or ("not polled yet" if age is None else f"polled {age:.1f} s ago"),
                required=False,
            ),
            Check(
                "slurm-nodes",
                assembly.engine.snapshot.slurm.known and not assembly.node_controllers.controller.error,
                assembly.node_controllers.controller.error,
                required=False,
            ),
            self._gates(),
            Check("policy", not assembly.policy_file.trouble, self._policy_trouble(), required=False),
            Check("fences", not (fences := self._weak_fences()), "; ".join(fences), required=False),
            Check(
                "restore",
                not (restored := assembly.restore_suspected),
                restored,
                required=False,
            ),
            Check("checkpoints", not assembly.checkpoints.trouble, assembly.checkpoints.trouble, required=False),
            Check(
                "mass-deletion-guard",
                not held,
                "engaged: many jobs or Pods went missing at once" if held else "",
                required=False,
            ),
        ]

    def _pod_groups(self) -> Sequence[Check]:
        """Return whether PodGroups are known, where they are read: no Pod is adopted before."""
        groups = self._assembly.informers.pod_groups
        return (Check("pod-groups", groups.synced, groups.trouble),) if groups.sources else ()

    def _gates(self) -> Check:
        """Return whether new Pods arrive with the scheduling gate. A replica that does not lead has seen none."""
        arrivals = self._assembly.pod_controllers.gate_arrivals
        return Check("gates", arrivals.gated is not False, arrivals.text, required=False)

    def _policy_trouble(self) -> str:
        file = self._assembly.policy_file
        stays = (
            "the last valid one stays in force" if file.policy is not None else "there is none, and no job is submitted"
        )
        return f"{stays}: {file.trouble}" if file.trouble else ""

    def _weak_fences(self) -> tuple[str, ...]:
        """Return what no fence covers, by Slurm's settings, by missing calls and by PrologSlurmctld's reports."""
        controllers = self._assembly.node_controllers
        settings = weak(self._assembly.engine.snapshot.slurm)
        return (*settings, *controllers.unsafe_jobs.sentences(), *controllers.clearance.weak)


def _mirrored(store: PodStore | NodeStore, status: ReflectorStatus, what: str) -> str:
    if store.synced:
        return f"{len(store)} {what} known"
    return f"not listed yet{': ' if status.trouble else ''}{status.trouble}"


def _by_names(p: Placeholder) -> tuple[list[str], str]:
    return [ref.full_name for ref in p.refs], p.key


def _short(p: Placeholder) -> dict[str, Any]:
    return {
        "key": p.key,
        "pods": [ref.full_name for ref in p.refs],
        "state": str(p.state),
        "jobId": p.job_id,
        "nodes": sorted({node for _, node in p.allocation}) if p.state is not State.RELEASING else [],
        "reason": p.reason,
    }
