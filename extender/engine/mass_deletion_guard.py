"""Stop evictions and cancellations when too many jobs or Pods are missing at once. Thresholds are defined only here.

One missing object is one ended object. Many at once mean that slurmctld or etcd lost its state, or that this process is
connected to the wrong cluster. Then nothing is ended for a long time, or until an administrator confirms.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from extender.domain.jobs.checkpoint import PodAbsence
from extender.domain.ports import Clock
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import MassDeletionConfirmed

_log = structlog.get_logger(__name__)

RUNBOOK_FOR_MISSING_JOBS = "runbook SlurmExtenderMassDeletionGuardActive"
"""Names the page that says how to confirm that jobs of running Pods are gone, for Events and log lines."""

RUNBOOK_FOR_MISSING_PODS = "runbook SlurmExtenderPodsMissing"
"""The same for Pods whose jobs still run."""


RESTORES = frozenset({PodAbsence.RESTORED, PodAbsence.UNREADABLE})
"""Reasons for which the etcd may have lost an object that still exists."""


@dataclass(frozen=True, slots=True)
class MassDeletionLimits:
    """Limit the ends that rest on missing information: at most `max(least, share)` in `window` s."""

    least: int = 5
    share: float = 0.1
    window: float = 60.0
    held: bool = False
    ends: tuple[float, ...] = ()

    def many(self, missing: int, total: int) -> bool:
        """Return whether so many of `total` are too many to be missing for ordinary reasons."""
        return missing > max(self.least, int(total * self.share))

    def count_end(self, now: float, total: int, missing: int = 1) -> tuple[MassDeletionLimits, bool]:
        """Count one more end because something vanished. Return the limits after it, and whether it may happen.

        `total` is the number of workloads alive, `missing` of how many of them the same may have to be asked, this one
        included. Once held it stays held until an administrator releases it.
        """
        recent = tuple(at for at in self.ends if now - at < self.window)
        if self.held or self.many(len(recent) + missing, total):
            return MassDeletionLimits(self.least, self.share, self.window, True, recent), False
        return MassDeletionLimits(self.least, self.share, self.window, False, (*recent, now)), True

    def release(self) -> MassDeletionLimits:
        """Forget that too many were missing."""
        return MassDeletionLimits(self.least, self.share, self.window)


@dataclass(frozen=True, slots=True)
class MassDeletionGuardOptions:
    """`limits` defines how many are too many. The others are seconds for which something must be missing before it
    counts as gone: `grace` where few are missing, `mass_grace` where too many are.

    `dry_run`: no object is ever ended because another one is missing.
    """

    limits: MassDeletionLimits = field(default_factory=MassDeletionLimits)
    grace: float = 5.0
    mass_grace: float = 600.0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class AbsenceVerdict:
    """State whether an object counts as gone. `wait_s`: seconds for which it must be missing."""

    lasted: bool
    """It has been missing for that long."""

    wait_s: float
    held: bool
    """It is held back for the long time: too many are missing, or a restore may have taken it back."""


class MassDeletionGuard:
    """Decide whether so many may be missing, and hold back what rests on that until it is confirmed."""

    def __init__(
        self, clock: Clock, events: EventBus, options: MassDeletionGuardOptions = MassDeletionGuardOptions()
    ) -> None:
        self._options = options
        self._limits = options.limits
        self._clock = clock
        self._events = events

    @property
    def engaged(self) -> bool:
        """Return whether evictions are held back because too many jobs were missing at once."""
        return self._limits.held

    @property
    def dry_run(self) -> bool:
        """Return whether no object is ever ended because another one is missing."""
        return self._options.dry_run

    def judge(
        self,
        since: float,
        missing: int = 0,
        total: int = 0,
        why: PodAbsence = PodAbsence.UNMARKED,
        *,
        reported: bool = False,
        grace_s: float | None = None,
    ) -> AbsenceVerdict:
        """Judge whether the absence of an object since then has lasted long enough, where `missing` of `total` are.

        `why`: the reason that a checkpoint gives. An object that was surely deleted ends at once, however much else is
        missing. One that a restore may have taken back waits long, also alone. `reported`: a watch reported its end, so
        that neither the others that are missing nor a restore count. `grace_s`: seconds for one of few, in place of the
        configured ones.
        """
        wait_s = self._options.grace if grace_s is None else grace_s
        if why is PodAbsence.DELETED:
            wait_s = 0.0
        elif not reported and (why in RESTORES or self._limits.many(missing, total)):
            wait_s = self._options.mass_grace
        return AbsenceVerdict(self._clock.now() - since >= wait_s, wait_s, wait_s >= self._options.mass_grace)

    def allows_eviction(self, missing: int, total: int) -> bool:
        """Count one more eviction that rests on a missing job, and return whether it may happen now.

        `missing` of `total` jobs are, this one included. Once the guard is engaged it stays so until `disengage`.
        """
        self._limits, allowed = self._limits.count_end(self._clock.now(), total, missing)
        return allowed

    def disengage(self) -> None:
        """Allow evictions again: no object is missing any more, or an administrator confirmed."""
        self._limits = self._limits.release()

    def confirm(self) -> None:
        """Confirm for an administrator that what is missing is gone: what is held back now may be ended."""
        if self._options.dry_run:
            _log.warning("mass_deletion_not_confirmed", why="orphans.dryRun is on: nothing is ended")
        self._events.publish(MassDeletionConfirmed())
