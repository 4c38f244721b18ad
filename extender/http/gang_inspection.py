"""Show gangs to operators: every one of them short, and one with its members. Values are ready for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from extender.assembly import Assembly
from extender.domain.gangs.completeness import waits_for_slot
from extender.domain.placeholder import State
from extender.observability.gang_rosters import GangRoster, MemberState, roster

MOST_GANGS = 1000
"""Gangs of one answer. A namespace narrows it."""


class GangInspection:
    """Reads everything, changes nothing."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly

    def every(self, namespace: str) -> Iterator[Mapping[str, Any]]:
        """Yield the gangs of a namespace, or of all where it is "", in the order in which they were recognised."""
        keys = list(self._assembly.gangs.lacking())
        found = (one for key in keys if (one := self._roster(key)) is not None)
        return map(_short, islice((one for one in found if namespace in {"", one.namespace}), MOST_GANGS))

    def of_pod(self, uid: str) -> Mapping[str, Any] | None:
        """Return the gang of this Pod; `None`: the Pod is a workload of its own, or is not known."""
        key = self._assembly.gangs.key_of(uid)
        found = None if key is None else self._roster(key)
        if found is None:
            return None
        row = next((one for one in found.rows if one.uid == uid), None)
        return {
            **_short(found),
            "why": self._why(found, unneeded=row is not None and row.state is MemberState.UNNEEDED),
            "emptySlots": [{"rank": rank, "slurmNode": node} for rank, node in found.empty],
            "members": [
                {
                    "rank": one.rank,
                    "pod": one.pod,
                    "uid": one.uid,
                    "state": str(one.state),
                    "phase": one.phase,
                    "slurmNode": one.slurm_node,
                    "node": one.node,
                }
                for one in found.rows
            ],
            "membersLeftOut": found.left_out,
        }

    def _roster(self, key: str) -> GangRoster | None:
        assembly = self._assembly
        memberships, p = assembly.gangs.memberships(key), assembly.engine.placeholders.get(key)
        if not memberships:
            return None
        absent = assembly.gangs.missing_of(p) if p is not None and p.state is State.GRANTED else ""
        voted = frozenset() if p is None else assembly.gang_barrier.voted(p)
        lacks, pod = assembly.gangs.waits_for(key), assembly.informers.pods.get
        return roster(key, memberships, p, lacks, absent=absent, pod=pod, voted=voted)

    def _why(self, found: GangRoster, *, unneeded: bool) -> str:
        if unneeded:
            return waits_for_slot(found.name)
        p = self._assembly.engine.placeholders.get(found.key)
        return found.missing if p is None else self._assembly.pod_controllers.explanations.of(p).text


def _short(one: GangRoster) -> dict[str, Any]:
    return {
        "key": one.key,
        "namespace": one.namespace,
        "name": one.name,
        "source": one.source,
        "state": str(one.state),
        "jobId": one.job_id,
        "size": one.size,
        "pods": len(one.rows) + one.left_out,
        "bound": one.bound,
        "missing": one.missing,
    }
