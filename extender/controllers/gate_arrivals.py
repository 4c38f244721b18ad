"""Report whether new Pods arrive with the scheduling gate, which a policy or a webhook of the cluster adds.

The extender may not read admission policies, and a webhook may be out of reach: only Pods show it.
Without the gate every waiting Pod is retried by kube-scheduler again and again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import structlog

from extender.domain.ports import Clock
from extender.domain.views import PodView
from extender.domain.wellknown import GATE

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Arrival:
    created_at: float
    gated: bool


class GateArrivals:
    """Keep how the newest Pod arrived. A Pod counts as it was created, with every gate that it had then."""

    def __init__(self, schedulers: Collection[str], clock: Clock) -> None:
        self._schedulers = frozenset(schedulers)
        self._began = int(clock.wall())
        self._newest: _Arrival | None = None

    @property
    def gated(self) -> bool | None:
        """Return whether the newest Pod arrived with the gate; `None`: no Pod has arrived yet."""
        return None if self._newest is None else self._newest.gated

    @property
    def text(self) -> str:
        """Return the same as a sentence for operators."""
        if self._newest is None:
            return "not known yet: no Pod was created since the start"
        if self._newest.gated:
            return f"new Pods arrive with the gate {GATE}"
        return (
            f"the newest Pod arrived without the gate {GATE}: kube-scheduler retries waiting Pods again and again; "
            "`slurm-extender doctor` says what adds the gate"
        )

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Handle a change of a Pod, or its adoption."""
        if old is not None or new is None or new.scheduler_name not in self._schedulers:
            return
        if new.node_name or new.deleted_at is not None or new.finished or not self._is_as_created(new):
            return
        if self._newest is not None and new.created_at < self._newest.created_at:
            return
        before, self._newest = self.gated, _Arrival(new.created_at, GATE in new.gates)
        if before is not self._newest.gated:
            if self._newest.gated:
                _log.info("pods_arrive_gated", pod=new.full_name, uid=new.uid)
            else:
                _log.warning("pods_arrive_ungated", pod=new.full_name, uid=new.uid, problem=self.text)

    def _is_as_created(self, pod: PodView) -> bool:
        """Return whether the specification is that of the creation: the removal of a gate counts up its generation.

        Kubernetes before 1.33 counts no generation of Pods; there a Pod counts that is created while this process runs.
        """
        return pod.generation == 1 or (pod.generation == 0 and pod.created_at >= self._began)
