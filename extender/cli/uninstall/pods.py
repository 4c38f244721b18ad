"""Remove the extender's gate from Pods, and withdraw its conditions."""

from __future__ import annotations

from extender.cli.uninstall.actions import ActionLog, each
from extender.cli.uninstall.inventory import Inventory
from extender.controllers.gates import DEFAULT_SCHEDULER
from extender.domain.events import MemberRef
from extender.domain.views import PodView
from extender.domain.wellknown import ALLOCATED_CONDITION, CONTAINERS_STARTED_CONDITION, GATE
from extender.kube.writes import PodWriter

UNINSTALLED = "ExtenderUninstalled"
"""Reason of the extender's conditions that do not hold any more."""


class PodCleanup:
    """`keep_gates`: for the next installation. `force`: also Pods of other scheduler names."""

    def __init__(self, actions: ActionLog, writer: PodWriter, scheduler: str, *, keep_gates: bool, force: bool) -> None:
        self._actions = actions
        self._pod_writer = writer
        self._scheduler = scheduler
        self._keep_gates = keep_gates
        self._force = force

    async def open_gates(self, found: Inventory) -> None:
        """Remove the gate from waiting Pods."""
        await each((pod for pod in found.pods.values() if GATE in pod.gates and pod.deleted_at is None), self._open)

    async def _open(self, pod: PodView) -> None:
        if self._keep_gates:
            self._actions.keep(f"the gate of Pod {pod.full_name}")
            return
        if pod.scheduler_name not in {self._scheduler, DEFAULT_SCHEDULER} and not self._force:
            whose = f"its schedulerName is {pod.scheduler_name}, which another extender may serve"
            self._actions.keep(f"the gate of Pod {pod.full_name}: {whose}; --force removes it")
            return
        ref = MemberRef.of(pod)

        async def ungate() -> str:
            return "" if await self._pod_writer.ungate(ref) else "the API server refused the change"

        await self._actions.do(f"remove the gate of Pod {pod.full_name}", ungate)

    async def withdraw_conditions(self, found: Inventory) -> None:
        """Withdraw the conditions that would become stale: why a Pod waits, and that a Pod does not start."""
        own = (pod for pod in found.pods.values() if pod.scheduler_name == self._scheduler)
        await each((pod for pod in own if not pod.ended and pod.deleted_at is None), self._withdraw_all)

    async def _withdraw_all(self, pod: PodView) -> None:
        condition, ref = pod.allocated, MemberRef.of(pod)
        if condition is not None and not condition.status and condition.reason != UNINSTALLED:
            text = "slurm-extender was uninstalled and requests no allocation for this Pod."
            await self._withdraw(ref, ALLOCATED_CONDITION, False, text)
        if pod.not_starting:
            text = "slurm-extender was uninstalled and does not check whether this Pod starts."
            await self._withdraw(ref, CONTAINERS_STARTED_CONDITION, None, text)

    async def _withdraw(self, ref: MemberRef, kind: str, holds: bool | None, text: str) -> None:
        async def write() -> str:
            done = await self._pod_writer.report(ref, kind, holds, UNINSTALLED, text)
            return "" if done else "the API server refused the change"

        await self._actions.do(f"withdraw the condition {kind} of Pod {ref.full_name}", write)
