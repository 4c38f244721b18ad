"""Keep the evidence that the fences of Slurm nodes work: take calls, miss those that do not come, write it on Nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from extender.domain.jobs.job import Mode
from extender.domain.nodes.fence_evidence import AHEAD_S, FencedNodes, FenceLedger, FenceProofs, FenceScript
from extender.domain.nodes.marks import NodePatch
from extender.domain.placeholder import State
from extender.domain.ports import Clock, KubeNodes
from extender.domain.views import NodeView
from extender.domain.wellknown import FENCE_EVIDENCE
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.topics import PlaceholderChanged, PlaceholderForgotten, SnapshotChanged

_log = structlog.get_logger(__name__)

CHECK_EVERY_S = 5.0
"""Seconds between two checks for evidence that expired, or whose call did not come."""

RENEWALS = 4
"""Evidence on a Node is written again when this part of its lifetime is over, so four times a day at most."""

AGAIN_AFTER_S = 10.0
"""Seconds before a write is tried again that was refused, or that the watch has not shown."""

AT_ONCE = 2
"""Writes under way."""

_HOLDS = {State.GRANTED, State.BOUND, State.LOST, State.RELEASING}
"""States in which the job of a placeholder may have nodes."""


@dataclass(frozen=True, slots=True)
class _Held:
    """The nodes of a job that runs."""

    job_id: int
    nodes: tuple[str, ...]
    mode: Mode | None


class FenceEvidenceController:
    """Own the evidence of fences. Keys are names of Slurm nodes. `lifetime_s`: how long a call is evidence."""

    def __init__(
        self,
        engine: Engine,
        ledger: FenceLedger,
        proofs: FenceProofs,
        writes: KubeNodes,
        clock: Clock,
        *,
        kube_node: Callable[[str], NodeView | None],
        lifetime_s: float,
    ) -> None:
        self._engine = engine
        self._ledger = ledger
        self._proofs = proofs
        self._writes = writes
        self._clock = clock
        self._kube_node = kube_node
        self._lifetime_s = lifetime_s
        self._held: dict[str, _Held] = {}
        """By workload."""

        self._last_calls: dict[tuple[str, FenceScript], tuple[int, float]] = {}
        """The job and the time of the last call of each script, by Slurm node, whatever job it was."""

        self._read: dict[str, str] = {}
        """The UID of the Node whose annotation was read, by Slurm node."""

        self._unproven: set[str] = set()
        """The Slurm nodes whose Node was read and bears text that is no evidence."""

        self._controller = Controller(
            "evidence of fences", self._write, workers=AT_ONCE, resync=Resync(self._changed, every=CHECK_EVERY_S)
        )

    def fenced(self) -> FencedNodes:
        """Return the nodes whose fence works now, as far as is known."""
        return self._ledger.fenced(self._clock.now())

    def counts(self) -> tuple[int, int]:
        """Return how many Slurm nodes have a working fence, and how many have none."""
        nodes = self._engine.snapshot.slurm.nodes
        external = {name for name, node in nodes.items() if node.external}
        unfenced = len(self.fenced().unfenced(nodes, external))
        return len(nodes) - unfenced, unfenced

    def called(self, script: FenceScript, slurm_node: str, jobs: Iterable[int]) -> None:
        """Take note of a call of the fence script that showed the site key.

        Only placeholder jobs count that have the node, or had it until just now.
        """
        known = slurm_node in self._engine.snapshot.slurm.nodes
        for job_id in jobs:
            if known:
                self._last_calls[slurm_node, script] = job_id, self._clock.now()
            if self._had(job_id, slurm_node):
                self._ledger.call(script, slurm_node, job_id, self._clock.now())

    def last_calls(self, slurm_node: str) -> dict[str, dict[str, float]]:
        """Return the last call of each script for a Slurm node, for `/debug` and the doctor's probe."""
        now = self._clock.now()
        return {
            str(script): {"jobId": job_id, "secondsAgo": round(now - at, 1)}
            for script in FenceScript
            for job_id, at in filter(None, (self._last_calls.get((slurm_node, script)),))
        }

    def forgotten(self, event: PlaceholderForgotten) -> None:
        """Take note that a workload is over, and its job with it."""
        self._end_holding(event.key)

    def snapshot_changed(self, _event: SnapshotChanged) -> None:
        """Take over what stands on Nodes that were not read yet."""
        self._read_nodes()

    async def run(self) -> None:
        """Write until cancelled."""
        await self._controller.run()

    def _had(self, job_id: int, slurm_node: str) -> bool:
        p = self._engine.placeholders.by_job(job_id)
        if p is not None and p.job_id == job_id and slurm_node in p.slurm_nodes:
            return True
        return self._ledger.awaits(job_id, slurm_node)

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Take note of the nodes of a job, and of its end."""
        p, held = event.after, self._held.get(event.after.key)
        if held is not None and (p.job_id != held.job_id or p.state not in _HOLDS or p.outlives_job):
            self._end_holding(p.key)
        if p.job_id is not None and p.slurm_nodes and p.state in _HOLDS and not p.outlives_job:
            self._held[p.key] = _Held(p.job_id, p.slurm_nodes, p.mode)

    def _end_holding(self, key: str) -> None:
        held = self._held.pop(key, None)
        if held is None:
            return
        slurm = self._engine.snapshot.slurm
        for node in held.nodes:
            scripts = [FenceScript.PROLOG_SLURMCTLD]
            external = (known := slurm.nodes.get(node)) is not None and known.external
            # An external job has no Epilog, on whatever node. How a job exists that a start found is not known.
            unknown = held.mode is None and slurm.features.external_anywhere
            if not (external or held.mode is Mode.EXTERNAL or unknown):
                scripts.append(FenceScript.EPILOG)
            self._ledger.end(held.job_id, (node,), scripts, self._clock.now())

    def _read_nodes(self) -> None:
        """Take over what processes before this one wrote, once for each Node; forget Slurm nodes that are gone."""
        snapshot = self._engine.snapshot
        if not (self._controller.running and snapshot.slurm.known and snapshot.node_map.known):
            return
        for slurm_node, name in snapshot.node_map.kubernetes.items():
            node = self._kube_node(name)
            if node is None or self._read.get(slurm_node) == node.uid:
                continue
            if slurm_node in self._read:  # another machine has its name
                self._ledger.drop(slurm_node)
            self._read[slurm_node] = node.uid
            self._adopt(slurm_node, node)
        for gone in (self._read.keys() | self._ledger.nodes()) - snapshot.slurm.nodes.keys():
            self._ledger.drop(gone)
            self._read.pop(gone, None)
        for call in [one for one in self._last_calls if one[0] not in snapshot.slurm.nodes]:
            del self._last_calls[call]

    def _adopt(self, slurm_node: str, node: NodeView) -> None:
        wall = self._clock.wall()
        found = {script: at for script, at in self._on(node, slurm_node).items() if at <= wall + AHEAD_S}
        for script, at in found.items():
            self._ledger.adopt(slurm_node, script, wall - at, self._clock.now())
        if not found and node.annotations.get(FENCE_EVIDENCE):
            self._unproven.add(slurm_node)

    def _on(self, node: NodeView, slurm_node: str) -> dict[FenceScript, int]:
        return self._proofs.read(node.annotations.get(FENCE_EVIDENCE, ""), node.uid, slurm_node)

    def _changed(self) -> list[str]:
        self._read_nodes()
        self._ledger.fenced(self._clock.now())
        changed, self._unproven = self._ledger.take_changed() | self._unproven, set()
        return sorted(changed)

    async def _write(self, slurm_node: str) -> Requeue | None:
        """Write the evidence of one Slurm node on its Node, where it is new, gone, old or not verifiable there."""
        node = self._kube_node(self._engine.snapshot.node_map.kubernetes.get(slurm_node, ""))
        if node is None:
            return None
        since = self._clock.wall() - self._clock.now()
        now = {script: int(at + since) for script, at in self._ledger.last_calls(slurm_node).items()}
        there, text = self._on(node, slurm_node), node.annotations.get(FENCE_EVIDENCE, "")
        if self._proofs.is_foreign(text) or not (now or text):
            return None
        if (
            now
            and now.keys() == there.keys()
            and all(abs(at - there[script]) < self._lifetime_s / RENEWALS for script, at in now.items())
        ):
            return None
        if gone := there.keys() - now.keys():
            scripts = sorted(gone)
            _log.warning("fence_lost", slurm_node=slurm_node, scripts=scripts)
        new = self._proofs.written(node.uid, slurm_node, now) if now else None
        await self._writes.mark(node, NodePatch(annotations={FENCE_EVIDENCE: new}))
        return Requeue(AGAIN_AFTER_S)
