"""Pods of ours: our gate, and what our conditions say."""

from __future__ import annotations

from extender.cli.uninstall.deeds import Deeds, each
from extender.cli.uninstall.found import Inventory
from extender.controllers.gates import DEFAULT_SCHEDULER
from extender.domain.events import MemberRef
from extender.domain.views import PodView
from extender.domain.wellknown import ALLOCATED_CONDITION, CONTAINERS_STARTED_CONDITION, GATE
from extender.kube.writes import PodWriter

TAKEN_AWAY = "ExtenderUninstalled"
"""Reason of our own conditions, where what they say is so no more."""


class OurPods:
    """`keep_gates`: for the next installation. `force`: Pods of other scheduler names, too."""

    def __init__(self, deeds: Deeds, writer: PodWriter, scheduler: str, *, keep_gates: bool, force: bool) -> None:
        self._deeds = deeds
        self._pod_writer = writer
        self._scheduler = scheduler
        self._keep_gates = keep_gates
        self._force = force

    async def open_gates(self, found: Inventory) -> None:
        """Let those go that wait for us."""
        await each((pod for pod in found.pods.values() if GATE in pod.gates and pod.deleted_at is None), self._open)

    async def _open(self, pod: PodView) -> None:
        if self._keep_gates:
            self._deeds.keep(f"the gate of Pod {pod.full_name}")
            return
        if pod.scheduler_name not in {self._scheduler, DEFAULT_SCHEDULER} and not self._force:
            whose = f"its schedulerName is {pod.scheduler_name}, of which another extender may be in charge"
            self._deeds.keep(f"the gate of Pod {pod.full_name}: {whose}; --force takes it off")
            return
        ref = MemberRef(pod.uid, pod.namespace, pod.name)

        async def ungate() -> str:
            return "" if await self._pod_writer.ungate(ref) else "the API server did not take it"

        await self._deeds.do(f"take the gate off Pod {pod.full_name}", ungate)

    async def take_back_words(self, found: Inventory) -> None:
        """Conditions that nobody keeps up to date any more: why a Pod waits, and that one is late."""
        ours = (pod for pod in found.pods.values() if pod.scheduler_name == self._scheduler)
        await each((pod for pod in ours if not pod.over and pod.deleted_at is None), self._take_back_of)

    async def _take_back_of(self, pod: PodView) -> None:
        said, ref = pod.allocated, MemberRef(pod.uid, pod.namespace, pod.name)
        if said is not None and not said.status and said.reason != TAKEN_AWAY:
            text = "slurm-extender has been taken away: nobody asks Slurm for this Pod."
            await self._take_back(ref, ALLOCATED_CONDITION, False, text)
        if pod.not_starting:
            text = "slurm-extender has been taken away: nobody looks whether this Pod starts."
            await self._take_back(ref, CONTAINERS_STARTED_CONDITION, None, text)

    async def _take_back(self, ref: MemberRef, kind: str, holds: bool | None, text: str) -> None:
        async def notify() -> str:
            told = await self._pod_writer.report(ref, kind, holds, TAKEN_AWAY, text)
            return "" if told else "the API server did not take it"

        await self._deeds.do(f"take back what the condition {kind} of Pod {ref.full_name} says", notify)
