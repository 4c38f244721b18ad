"""Find the slots of a gang's job that had a Pod which the API server does not show at a start.

Each gets a member that is `unknown`: its Pod was deleted while no extender ran, maybe by force, or a restore of etcd
took it back. In both cases its processes may run. `controllers.unknown_members` finds out which of them it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from uuid import NAMESPACE_OID, uuid5

from extender.domain.events import MemberRef
from extender.domain.jobs.identity import decode_mark, names_member
from extender.domain.jobs.job import GangRestart, JobView
from extender.domain.placeholder import Member, Placeholder
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.ports import PodCache


def unknown_members(
    key: str, members: Sequence[Member], job_id: int | None, cache: PodCache, allocation_records: AllocationRecords
) -> list[Member]:
    """Return a member for each slot of the job that no Pod of the gang has; none where no Pod is bound to the job.

    The allocation records of the bound members prove how many slots the job was given.
    """
    if job_id is None or any(member.ref.uid == key for member in members):
        return []
    bound = [member for member in members if member.job_id == job_id and member.slot is not None]
    size = 0
    for member in bound:
        pod = cache.get(member.ref.uid)
        place = None if pod is None else allocation_records.read(pod.annotations, pod.uid).gang
        size = max(size, 0 if place is None else place.size)
    taken = {member.slot for member in bound}
    found = ((slot, _unknown(key, members[0].ref, job_id, slot)) for slot in range(size) if slot not in taken)
    return [Member(ref, slot, job_id=job_id, unknown=True) for slot, ref in found]


def left_by_all(p: Placeholder, job: JobView, waiting: Iterable[str] = ()) -> tuple[tuple[MemberRef, int], ...]:
    """Return a member for each slot of a running job of a gang of which no Pod is bound; none where no Pod ever was.

    The first members of a gang are bound together: none was bound as long as one of them waits. A mark of an earlier
    release does not say who they were. A process that had a job submitted knows by itself who was bound. An allocation
    that is kept for the next Pods has none of the last ones, whose ends were seen. `waiting`: UIDs of Pods that are on
    no node, and may be first members although it is not known yet of which gang.
    """
    if p.attempt or not p.is_gang or not p.refs:
        return ()
    if any(one.node or one.binding or one.job_id is not None or one.unknown for one in p.members):
        return ()  # the records of these say which Pods were bound, whatever became of them since
    mark = decode_mark(job.admin_comment)
    if mark is None or mark.workload != p.key or not mark.members:
        return ()
    if any(names_member(mark, uid) for uid in chain((ref.uid for ref in p.refs), waiting)):
        return ()
    if p.request is not None and p.request.restart is GangRestart.KEEP_ALLOCATION:
        return ()
    return tuple((_unknown(p.key, p.refs[0], job.job_id, slot), slot) for slot in range(mark.slots or 0))


def _unknown(key: str, other: MemberRef, job_id: int, slot: int) -> MemberRef:
    """Return the member for a slot. Its UID is the same after each start, as the reason of a drain names it."""
    uid = str(uuid5(NAMESPACE_OID, f"{key} {job_id} {slot}"))
    return MemberRef(uid, other.namespace, f"unknown-pod-of-rank-{slot}")
