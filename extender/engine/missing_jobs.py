"""Count reads that do not find a job, and let the mass-deletion guard decide before a Pod is ended for it.

Nothing is ended because information is missing: one "unknown job" proves nothing, and many at once mean that Slurm has
lost its state or that the wrong Slurm answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

import structlog

from extender.domain.events import MemberRef
from extender.domain.rules import MassDeletionGuard
from extender.domain.wellknown import Reason
from extender.engine.orphan_count import Orphan, OrphanCount
from extender.ports import Announcement, Announcer, Clock

_log = structlog.get_logger(__name__)

MISSES = 2
"""How many reads must say "unknown job", begun MISS_APART seconds apart, before a job counts as vanished."""

MISS_APART = 1.0

GATHER = 10.0
"""Seconds for which a unit's job must be missing before it may end: until then it shows how many others are."""

HELD_TEXT = (
    "Its Slurm job is not there any more, but so are many others: nothing is ended until a person looks "
    "and releases the brake. Its node takes no other job meanwhile."
)

SPARED_TEXT = (
    "Its Slurm job is not there any more: it would be ended, but the extender's configuration says orphans.dryRun. "
    "Its node takes no other job meanwhile."
)

ELSEWHERE_TEXT = (
    "Its Slurm job is not there, but neither is its node: another Slurm may be answering. Nothing is ended until a "
    "person looks and releases it (SIGUSR1)."
)

HOW_TO_RELEASE = (
    "many jobs are missing at once; look at slurmctld. Nothing is ended for it meanwhile. If they are really gone, "
    "send SIGUSR1 to this process, or delete the Pods; if they come back, all goes on by itself"
)


class MissingJobTracker:
    """Counts misses, and asks the guard. `alive` is how many placeholder jobs there are; `dry_run` ends none."""

    def __init__(
        self,
        clock: Clock,
        announcer: Announcer,
        brake: MassDeletionGuard,
        alive: Callable[[], int],
        *,
        dry_run: bool = False,
    ) -> None:
        self.brake = brake
        self.dry_run = dry_run
        self.count = OrphanCount()
        self.listeners: list[Callable[[str, bool], None]] = []
        """Told of each unit whose job is missing, and when it is there again or the unit is over."""

        self._clock = clock
        self._announcer = announcer
        self._alive = alive
        self._misses: dict[str, tuple[int, int, float]] = {}
        """By unit: the job, how many reads did not find it, and when the first began."""

        self._missing: dict[str, float] = {}
        """When the end of a unit was asked for first, and neither was it allowed nor did its job come back."""

        self._doubted: set[str] = set()
        """Units with Pods on nodes whose job was not there when Slurm was last asked."""

        self._held: set[str] = set()
        """Units whose end the brake holds back."""

        self._excused: set[str] = set()
        """Units that a person let go."""

    def doubt(self, key: str) -> None:
        """The job of this unit, whose Pods are on nodes, is not there just now: to Slurm these are free."""
        if key not in self._doubted:
            self._doubted.add(key)
            self._tell(key, True)

    def missed(self, key: str, job_id: int, began: float) -> bool:
        """A read that began then did not find this job; whether it counts as vanished by now."""
        missed, count, since = self._misses.get(key, (job_id, 0, began))
        if missed != job_id:
            count, since = 0, began
        self._misses[key] = (job_id, min(count + 1, MISSES), since)
        return count + 1 >= MISSES and began - since >= MISS_APART

    def misses(self, key: str) -> bool:
        """Whether the last read of this unit's job did not find it, or the brake keeps the unit."""
        return key in self._misses or key in self._held

    def seen(self, key: str) -> None:
        """The unit's job is there, or the unit is over."""
        self._misses.pop(key, None)
        self._missing.pop(key, None)
        self._excused.discard(key)
        if key in self._doubted | self._held:
            self._doubted.discard(key)
            self._held.discard(key)
            self._tell(key, False)
            if not self._held and self.brake.held:
                self.brake = self.brake.release()
                _log.warning("mass_deletion_guard_released", why="nothing is missing any more")

    def may_end(self, key: str, job_id: int | None, refs: Sequence[MemberRef], *, elsewhere: bool = False) -> bool:
        """Ask the brake whether this unit may be ended because its job is not there any more.

        `elsewhere`: nor are its nodes, in this Slurm, so that only a person can tell.

        Not at once: whoever misses many jobs meets them one after the other, after each start anew, and would end the
        first few before it knew of the rest.
        """
        now, before = self._clock.now(), self.brake.held
        if key not in self._missing and key not in self._excused:
            self.count.found[Orphan.POD] += 1
        if key in self._excused and not self.dry_run:
            self.count.ended[Orphan.POD] += 1
            return True
        since = self._missing.setdefault(key, now)
        if not before and now - since < GATHER:
            return False
        if self.dry_run:
            self._hold(key, job_id, refs, SPARED_TEXT)
            return False
        if elsewhere:
            self._hold(key, job_id, refs, ELSEWHERE_TEXT)
            return False
        self.brake, allowed = self.brake.ask(now, self._alive(), len(self._missing))
        if allowed:
            del self._missing[key]
            self.count.ended[Orphan.POD] += 1
            _log.warning("pod_without_job_ended", pod=_names(refs), uid=key, job_id=job_id)
            return True
        if not before:
            _log.error("mass_deletion_guard_active", what=HOW_TO_RELEASE)
        self._hold(key, job_id, refs, HELD_TEXT)
        return False

    @property
    def held(self) -> Set[str]:
        """Units that run on although their job is missing."""
        return self._held

    def _hold(self, key: str, job_id: int | None, refs: Sequence[MemberRef], text: str) -> None:
        if key in self._held:
            return
        self._held.add(key)
        if self.dry_run:
            self.count.spared[Orphan.POD] += 1
            _log.warning("pod_would_be_ended", pod=_names(refs), uid=key, job_id=job_id, why=text)
        else:
            self.count.held[Orphan.POD] += 1
            _log.error("eviction_paused", pod=_names(refs), uid=key, job_id=job_id)
        for ref in refs:
            said = Announcement("Pod", ref.namespace, ref.name, ref.uid, Reason.HELD, text, warning=True)
            self._announcer.announce(said)
        self._tell(key, True)

    def release(self) -> None:
        """A person has looked: what is held back now may be ended."""
        if self.dry_run:
            _log.warning(
                "mass_deletion_guard_not_released", why="orphans.dryRun is on: nothing is ended", units=len(self._held)
            )
            return
        _log.warning("mass_deletion_guard_released", why="a person said so", units=len(self._held))
        self._excused |= self._held
        self._doubted |= self._held  # who was told of them is told, too, when a job is there again after all
        self._held.clear()
        self.brake = self.brake.release()

    def _tell(self, key: str, held: bool) -> None:
        for listener in self.listeners:
            listener(key, held)


def _names(refs: Sequence[MemberRef]) -> str:
    return ", ".join(ref.full_name for ref in refs)
