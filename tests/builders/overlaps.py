"""Overlaps on a node: something started there before the ended Pod was gone, by the logs of all components."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.instants import KubeInstants, SlurmInstants
from tests.builders.ends import Ended, Kind


@dataclass(frozen=True, slots=True)
class Gaps:
    """Of one end, in seconds; negative is an overlap."""

    ended: Ended
    next_job: float
    """From the Pod's real end to the start of the next job: its script's first line, or where it has none the moment in
    which slurmctld ends CONFIGURING."""

    next_pod: float
    """To the Binding of the next Pod."""

    waited: float
    """For how long the next job had had the node when the Pod was gone; negative: it was given to it after."""

    unfenced: float | None
    """From slurmctld's first line about the job's end to the extender's drain; None without one while the Pod ran."""

    @property
    def least(self) -> float:
        """Return the smaller one."""
        return min(self.next_job, self.next_pod)


def gaps(ended: Ended, kube: KubeInstants, slurm: SlurmInstants) -> Gaps:
    """Look up the instants of one end. KeyError: no log shows when one of them started or was gone."""
    gone, job_ended_at = ended.gone or kube.gone[ended.victim], slurm.ended.get(ended.victim_job)
    start = ended.script or slurm.configured[ended.next_job]
    drains = [
        at
        for at, node in slurm.drained
        if node == ended.node and job_ended_at is not None and job_ended_at <= at <= gone
    ]
    unfenced = min(drains) - job_ended_at if job_ended_at is not None and drains else None
    waited = gone - slurm.given[ended.next_job]
    return Gaps(ended, start - gone, kube.bound[ended.next_pod] - gone, waited, unfenced)


def overlaps(found: Iterable[Gaps]) -> list[str]:
    """Return a line for each end at which something started too early."""
    return [
        f"{one.ended.end.kind} [{one.ended.end.mode}, grace {one.ended.end.grace_s} s, {one.ended.node}, "
        f"{one.ended.victim}, job {one.ended.victim_job}]: next job {one.ended.next_job} {one.next_job:+.3f} s, "
        f"next Pod {one.next_pod:+.3f} s"
        for one in found
        if one.least < 0
    ]


def rows(found: Sequence[Gaps]) -> list[Mapping[str, str]]:
    """Return the rows of a report: one for each kind of end."""
    by_kind: dict[Kind, list[Gaps]] = defaultdict(list)
    for one in found:
        by_kind[one.ended.end.kind].append(one)
    return [
        {
            "end": str(kind),
            "ends": str(len(of_kind)),
            "overlaps": str(len(overlaps(of_kind))),
            "given away before": str(sum(one.waited > 0 for one in of_kind)),
            "longest wait, s": f"{max(0.0, *(one.waited for one in of_kind)):.1f}",
            "smallest gap, s": f"{min(one.least for one in of_kind):.3f}",
            "median gap, s": f"{statistics.median(one.least for one in of_kind):.3f}",
            "drained after, ms": _after([one.unfenced for one in of_kind if one.unfenced is not None]),
        }
        for kind, of_kind in sorted(by_kind.items())
    ]


def _after(seconds: Sequence[float]) -> str:
    return f"{min(seconds) * 1000:.0f}-{max(seconds) * 1000:.0f}" if seconds else "-"
