"""Explain why the Pods of a workload wait, in one sentence that is the same everywhere."""

from __future__ import annotations

from collections.abc import Callable

from extender.domain.placeholder import Placeholder
from extender.domain.pods.why import Place, Surroundings, Why, why
from extender.domain.ports import Clock, PodCache
from extender.domain.wellknown import GATE
from extender.engine.slurm_health import SlurmHealth


class WaitReasons:
    """Collect what the reason depends on beside the placeholder itself.

    `slurm_read`: Slurm's nodes were read. `place_of` gives the place of a waiting job in Slurm's queue.
    `policy_trouble` gives what is wrong with the policy where there is none.
    """

    def __init__(
        self,
        clock: Clock,
        cache: PodCache,
        health: SlurmHealth,
        *,
        slurm_read: Callable[[], bool],
        place_of: Callable[[Placeholder], Place | None],
        policy_trouble: Callable[[], str],
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._health = health
        self._slurm_read = slurm_read
        self._place_of = place_of
        self._policy_trouble = policy_trouble

    def of(self, p: Placeholder) -> Why:
        """Return why the Pods of this workload wait now."""
        pod = next((pod for ref in p.refs if (pod := self._cache.get(ref.uid)) is not None), None)
        return why(
            p,
            Surroundings(
                self._clock.wall(),
                slurm_away=self._health.away_since(),
                slurm_read=self._slurm_read(),
                policy_trouble=self._policy_trouble(),
                gates=tuple(gate for gate in pod.gates if gate != GATE) if pod is not None else (),
                gated=pod is not None and GATE in pod.gates,
                place=self._place_of(p),
            ),
        )
