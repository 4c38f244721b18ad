"""Act as operators who use scontrol, scancel and kubectl without regard to the extender."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from extender.domain.wellknown import CORDONED_BY
from simulator.actors.pacing import repeat_at_random
from simulator.cluster import SimCluster
from simulator.event_log import EventLog, job_subject, node_subject
from simulator.kube.objects import Json
from simulator.quiescence import QuiescenceTracker
from simulator.slurm.records import SimJob

CONFIRM_EVERY_S = 200.0

REASON = "operator: "
"""Prefix of the reasons of operators' drains."""

EPILOG_ERROR = "Epilog error"
"""As slurmctld drains a node whose Epilog failed (`_slurm_rpc_epilog_complete` in `slurmctld/proc_req.c`)."""


@dataclass(slots=True)
class Operators:
    """Execute one operation about every `every_s`. Changes of nodes are undone after a time, or by `heal`."""

    cluster: SimCluster
    rng: random.Random
    event_log: EventLog
    quiescence: QuiescenceTracker
    every_s: float
    done: Counter[str] = field(default_factory=Counter)
    drains: dict[str, str] = field(default_factory=dict)
    """Active drains of operators: node and reason."""

    drained_at: dict[str, float] = field(default_factory=dict)
    """When slurmctld set each drain."""

    released: int = 0
    """How often an operator confirmed what the mass-deletion guard held back."""

    stopped: bool = False
    failing: dict[str, str] = field(default_factory=dict)
    """Nodes in state FAIL (`maintenance`), and why: operators do not drain them or take them down."""

    _cordoned: set[str] = field(default_factory=set)
    _down: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Run until cancelled."""
        acts = [self._on_jobs, self._on_jobs, self._drain, self._cordon, self._lose]

        def act() -> None:
            self.rng.choice(acts)()

        await repeat_at_random(self.rng, self.every_s, act, lambda: self.stopped)

    async def confirm_held_evictions(self) -> None:
        """Confirm every few minutes what the mass-deletion guard holds back, as SIGUSR1 does."""
        while True:
            await asyncio.sleep(CONFIRM_EVERY_S)
            if self.cluster.extender.mass_deletion_guard.engaged:
                self.released += 1
                self.event_log.add("an operator confirms what the mass-deletion guard holds back")
                self.cluster.extender.mass_deletion_guard.confirm()

    def heal(self) -> None:
        """Undo all operations."""
        self.stopped = True
        for node in sorted(self._down):
            self._bring_back(node)
        for node in sorted(self.drains):
            self._resume(node)
        for node in sorted(self._cordoned):
            self._uncordon(node)
        controller = self.cluster.slurm.controller
        for job in controller.known_jobs():
            if job.held_by and job.pending:
                controller.unhold(job.job_id)
            controller.unsuspend(job.job_id)

    def has_in_hand(self, node: str) -> bool:
        """Return whether an operation on a node is still to be undone."""
        return any(node in hands for hands in (self.drains, self.failing, self._cordoned, self._down))

    def _nodes(self) -> list[str]:
        """Return the Slurm nodes that have a Node."""
        cluster = self.cluster
        return [name for name in cluster.slurm.controller.nodes if cluster.kube.node(cluster.names.kube(name))]

    def _on_jobs(self) -> None:
        controller, rng = self.cluster.slurm.controller, self.rng
        jobs = [job for job in controller.known_jobs() if not job.ended]
        if not jobs:
            return
        job = rng.choice(jobs)
        if job.pending:
            waiting: dict[str, Callable[[SimJob], None]] = {
                "hold": lambda one: controller.hold(one.job_id),
                "release": lambda one: controller.unhold(one.job_id),
                "scancel": lambda one: (controller.cancel(one.job_id), None)[1],
            }
            name = rng.choice(["hold", "release", "release", "scancel"])
            act = waiting[name]
        elif job.running:
            running: dict[str, Callable[[SimJob], None]] = {
                "scancel": lambda one: (controller.cancel(one.job_id), None)[1],
                "requeue": lambda one: controller.requeue(one.job_id),
                "suspend": self._suspend,
                "update TimeLimit": self._limit,
                "fail": lambda one: controller.end(one.job_id, "FAILED"),
                "out of memory": lambda one: controller.end(one.job_id, "OUT_OF_MEMORY"),
            }
            name = rng.choice(list(running))
            act = running[name]
        else:
            return
        self._record(name, job_subject(job.job_id))
        act(job)

    def _suspend(self, job: SimJob) -> None:
        self.cluster.slurm.controller.suspend(job.job_id)
        back = self.rng.expovariate(1 / 60.0)
        timers = self.cluster.slurm.controller.timers
        timers.after(back, lambda: self.cluster.slurm.controller.unsuspend(job.job_id))

    def _limit(self, job: SimJob) -> None:
        job.time_limit_s = self.rng.choice([60.0, 600.0, 7200.0])
        job.end_time = job.start_time + job.time_limit_s

    def _drain(self) -> None:
        node = self.rng.choice(self._nodes())
        if node in self.drains or node in self.failing:
            return
        reason = f"{REASON}disk {self.done['drain']}"
        self._record("drain", node_subject(node))
        self.drains[node] = reason
        self.cluster.slurm.controller.drain(node, reason)
        self._later(node, self.drains, self._resume)

    def adopt_drain(self, node: str, reason: str) -> None:
        """Take over a drain that Slurm set, and resume the node after a time."""
        self.done[reason] += 1
        self.drains[node], self.drained_at[node] = reason, self.cluster.slurm.controller.timers.wall()
        self._later(node, self.drains, self._resume)

    def note_restore(self) -> None:
        """Read the operators' drains and cordons again after slurmctld or etcd was restored to an older state."""
        for node in self.cluster.slurm.controller.nodes.values():
            if not (node.drained and (node.reason.startswith(REASON) or node.reason == EPILOG_ERROR)):
                self.drains.pop(node.name, None)
            elif self.drains.get(node.name) != node.reason:
                self.drains[node.name] = node.reason
                self._later(node.name, self.drains, self._resume)
        for name in self._nodes():
            there = self.cluster.kube.node(self.cluster.names.kube(name))
            if there is None or not is_cordoned_by_others(there):
                self._cordoned.discard(name)
            elif name not in self._cordoned:
                self._cordoned.add(name)
                self._later(name, self._cordoned, self._uncordon)

    def _resume(self, node: str) -> None:
        self.event_log.add("an operator resumes it", node_subject(node))
        self.drains.pop(node, None)
        if node in self.cluster.slurm.controller.nodes:
            self.cluster.slurm.controller.resume(node)

    def _cordon(self) -> None:
        node = self.rng.choice(self._nodes())
        there = self.cluster.kube.node(self.cluster.names.kube(node))
        if node in self._cordoned or there is None or there["spec"].get("unschedulable"):
            return  # it is cordoned already, perhaps by the extender
        self._record("cordon", node_subject(node))
        self._cordoned.add(node)
        self.cluster.cordon(self.cluster.names.kube(node))
        self._later(node, self._cordoned, self._uncordon)

    def _uncordon(self, node: str) -> None:
        self.event_log.add("an operator uncordons it", node_subject(node))
        self._cordoned.discard(node)
        self.cluster.cordon(self.cluster.names.kube(node), False)

    def _lose(self) -> None:
        """Set a node DOWN in slurmctld, and in half of the cases stop its kubelet."""
        node = self.rng.choice(self._nodes())
        if node in self._down or node in self.failing:
            return
        whole = self.rng.random() < 0.5
        self._record("node DOWN" + (", its kubelet too" if whole else ""), node_subject(node))
        self._down.add(node)
        self.cluster.slurm.controller.set_down(node)
        if whole:
            self.cluster.kubelets.take_down(self.cluster.names.kube(node))
            self.cluster.report_ready(self.cluster.names.kube(node), False)
        self.quiescence.begin(f"down {node}")
        self._later(node, self._down, self._bring_back)

    def _bring_back(self, node: str) -> None:
        self.event_log.add("an operator brings it back", node_subject(node))
        self._down.discard(node)
        self.cluster.report_ready(self.cluster.names.kube(node), True)
        self.cluster.kubelets.bring_back(self.cluster.names.kube(node))
        one = self.cluster.slurm.controller.nodes[node]
        one.down = False
        self.cluster.slurm.controller.changed()
        self.quiescence.end(f"down {node}")

    def _later(self, node: str, doing: set[str] | dict[str, str], undo: Callable[[str], None]) -> None:
        def act() -> None:
            if node in doing:
                undo(node)

        self.cluster.slurm.controller.timers.after(self.rng.uniform(5.0, 300.0), act)

    def _record(self, what: str, subject: str) -> None:
        self.done[what] += 1
        self.event_log.add(f"an operator: {what}", subject)


def is_cordoned_by_others(node: Json) -> bool:
    """Return whether a Node is cordoned, and not by the extender."""
    mark = (node["metadata"].get("annotations") or {}).get(CORDONED_BY, "")
    return bool(node["spec"].get("unschedulable")) and not mark
