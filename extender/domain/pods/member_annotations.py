"""Name the annotations that the extender writes on a bound member."""

from __future__ import annotations

from collections.abc import Mapping

from extender.domain.jobs.devices import written_devices
from extender.domain.placeholder import Placeholder
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.wellknown import GANG_ANNOTATIONS, GANG_NODES


def allocation_annotations(
    p: Placeholder, uid: str, node: str, allocation_records: AllocationRecords, present: Mapping[str, str]
) -> dict[str, str]:
    """Return the allocation record of a member on its node, with the devices; `present` is on the Pod.

    "" removes a place in a gang that the author of a Pod without a gang wrote.
    """
    gang = p.gang_place(uid)
    forged = {key: "" for key in GANG_ANNOTATIONS if gang is None and present.get(key)}
    written = allocation_records.written(p.job_id, node, uid, p.slurm_node_of(uid), gang)
    return forged | written | written_devices(p.devices_of(uid))


def nodes_of_gang(p: Placeholder, uid: str) -> dict[str, str]:
    """Return the nodes of the gang by rank, for a member of one; they stay as they were when it was bound."""
    if p.gang_place(uid) is None or p.job is None:
        return {}
    return {GANG_NODES: ",".join(p.job.slots or p.job.slurm_nodes)}
