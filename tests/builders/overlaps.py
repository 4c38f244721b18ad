"""Whether anything started on a node before the Pod that ended there was gone, by the logs of all who took part."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.instants import KubeInstants, SlurmInstants
from tests.builders.ends import Ended, Kind

WINDOW_S = 1.5
"""Seconds after the end of a job within which slurmctld may have given its node away before it could be told not to; as
docs/fences.md says."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Of one end, in seconds; negative is an overlap."""

    ended: Ended
    next_job: float
    """From the Pod's real end to the start of the next job: slurmctld's word, or its script's first line if earlier."""

    next_pod: float
    """To the Binding of the next Pod."""

    given: float | None
    """From slurmctld's first word of the job's end to the start of the next job."""

    unfenced: float | None
    """From that word to our drain of the node; None where there was no drain while the Pod was there."""

    @property
    def least(self) -> float:
        """The smaller one."""
        return min(self.next_job, self.next_pod)


def gaps(ended: Ended, kube: KubeInstants, slurm: SlurmInstants) -> Gaps:
    """Look up the instants of one end. KeyError: no log tells when one of them started or was gone."""
    gone, over = kube.gone[ended.victim], slurm.ended.get(ended.victim_job)
    # Without a script only slurmctld's log tells (26.05 has each change of a job's state), with one 24.11 may not.
    log = slurm.started.get(ended.next_job) if ended.script else slurm.started[ended.next_job]
    start = min(filter(None, (ended.script, log)))
    drains = [at for at, node in slurm.drained if node == ended.node and over is not None and over <= at <= gone]
    unfenced = min(drains) - over if over is not None and drains else None
    given = start - over if over is not None else None
    return Gaps(ended, start - gone, kube.bound[ended.next_pod] - gone, given, unfenced)


def overlaps(found: Iterable[Gaps]) -> list[str]:
    """A line for each end at which something started too early."""
    return [
        f"{one.ended.end.kind} [{one.ended.end.mode}, grace {one.ended.end.grace_s} s, {one.ended.node}, "
        f"{one.ended.victim}, job {one.ended.victim_job}]: next job {one.ended.next_job} {one.next_job:+.3f} s, "
        f"next Pod {one.next_pod:+.3f} s"
        for one in found
        if one.least < 0
    ]


def within_reach(found: Iterable[Gaps]) -> list[Gaps]:
    """Those that a fence can hold: all but the next jobs that the docs' table leaves out.

    They are decided in slurmctld before it is told: a node set DOWN whose slurmd answers is back within half a second
    (ReturnToService=2), and a node without slurmd is free the moment its job is cancelled or preempted. A next Pod is
    ours to keep off, always.
    """
    return [one for one in found if not excused(one)]


def excused(one: Gaps) -> bool:
    """Whether the next job was given the node within the window, and before our drain."""
    end = one.ended.end
    unheld = end.kind is Kind.DOWN or (end.mode == "external" and end.kind in {Kind.CANCEL, Kind.PREEMPT})
    if one.given is None or not unheld or one.next_pod < 0:
        return False
    return one.given <= WINDOW_S and (one.unfenced is None or one.given < one.unfenced)


def rows(found: Sequence[Gaps]) -> list[Mapping[str, str]]:
    """What a report says: one row for each kind of end."""
    by_kind: dict[Kind, list[Gaps]] = defaultdict(list)
    for one in found:
        by_kind[one.ended.end.kind].append(one)
    return [
        {
            "end": str(kind),
            "ends": str(len(of_kind)),
            "overlaps": str(len(overlaps(of_kind))),
            "excused": str(sum(one.least < 0 and excused(one) for one in of_kind)),
            "given away after, ms": _after([one.given for one in of_kind if one.least < 0 and one.given is not None]),
            "smallest gap, s": f"{min(one.least for one in of_kind):.3f}",
            "median gap, s": f"{statistics.median(one.least for one in of_kind):.3f}",
            "drained after, ms": _after([one.unfenced for one in of_kind if one.unfenced is not None]),
        }
        for kind, of_kind in sorted(by_kind.items())
    ]


def _after(seconds: Sequence[float]) -> str:
    return f"{min(seconds) * 1000:.0f}-{max(seconds) * 1000:.0f}" if seconds else "-"
