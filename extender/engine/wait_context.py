"""Collect the `WaitContext` of a waiting workload, from which `domain.pods.why` computes the reason.

The sentence includes the place of a waiting job in Slurm's queue, from reads that happen anyway. Slurm shows a job's
priority with the job itself, and the order of all jobs only with all of them, which is too expensive. So a job is
compared with the other placeholder jobs that wait in its partition.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass

from extender.domain.job_outcomes.slurm_states import Waiting, observe
from extender.domain.jobs.job import JobView
from extender.domain.placeholder import Placeholder, State
from extender.domain.pods.why import QueuePosition, WaitContext, Why, place_of, why
from extender.domain.ports import Clock, PodCache
from extender.domain.wellknown import GATE
from extender.engine.slurm_health import SlurmHealth


class WaitContextReader:
    """Collect the inputs of `domain.pods.why` that are not in the placeholder.

    `slurm_read`: Slurm's nodes were read. `place_of` gives the place of a waiting job in Slurm's queue.
    `policy_trouble` gives what is wrong with the policy where there is none, `gang_waits_for` what a gang needs,
    `missing_resource_claim` which ResourceClaim of a member that waits does not exist.
    """

    def __init__(
        self,
        clock: Clock,
        cache: PodCache,
        health: SlurmHealth,
        *,
        slurm_read: Callable[[], bool],
        place_of: Callable[[Placeholder], QueuePosition | None],
        policy_trouble: Callable[[], str],
        gang_waits_for: Callable[[str], str],
        missing_resource_claim: Callable[[Placeholder], str],
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._health = health
        self._slurm_read = slurm_read
        self._place_of = place_of
        self._policy_trouble = policy_trouble
        self._gang_waits_for = gang_waits_for
        self._missing_resource_claim = missing_resource_claim

    def of(self, p: Placeholder) -> Why:
        """Return why the Pods of this workload wait now."""
        pod = next((pod for ref in p.refs if (pod := self._cache.get(ref.uid)) is not None), None)
        return why(
            p,
            WaitContext(
                self._clock.wall(),
                slurm_away=self._health.away_since(),
                slurm_read=self._slurm_read(),
                policy_trouble=self._policy_trouble(),
                gates=tuple(gate for gate in pod.gates if gate != GATE) if pod is not None else (),
                gated=pod is not None and GATE in pod.gates,
                gang=self._gang_waits_for(p.key),
                missing_resource_claim=self._missing_resource_claim(p),
                place=self._place_of(p),
            ),
        )


_Turn = tuple[int, int]
"""Lower comes first: the priority, negative, and the job's number."""


@dataclass(frozen=True, slots=True)
class _QueueReading:
    job: JobView
    turn: _Turn


class QueuePositions:
    """Keep the last read of each waiting job, by workload."""

    def __init__(self) -> None:
        self._read: dict[str, _QueueReading] = {}
        self._turns: dict[str, list[_Turn]] = {}
        """By partition, sorted."""

    def __len__(self) -> int:
        return len(self._read)

    def check(self, p: Placeholder, job: JobView) -> None:
        """Record a read of the workload's job."""
        if job.job_id != p.job_id or not isinstance(observe(job), Waiting):
            return
        self._drop(p.key)
        read = _QueueReading(job, (-job.priority, job.job_id))
        self._read[p.key] = read
        insort(self._turns.setdefault(job.partition, []), read.turn)

    def stepped(self, _before: Placeholder, after: Placeholder) -> None:
        """Handle a change of a workload."""
        read = self._read.get(after.key)
        if read is not None and (after.state is not State.WAITING or after.job_id != read.job.job_id):
            self._drop(after.key)

    def place(self, p: Placeholder) -> QueuePosition | None:
        """Return the position of its job; `None`: it has not been read yet."""
        read = self._read.get(p.key)
        if read is None:
            return None
        return place_of(read.job, bisect_left(self._turns[read.job.partition], read.turn))

    def _drop(self, key: str) -> None:
        read = self._read.pop(key, None)
        if read is None:
            return
        turns = self._turns[read.job.partition]
        del turns[bisect_left(turns, read.turn)]
        if not turns:
            del self._turns[read.job.partition]
