"""Find the slots of a running gang that no Pod uses, and the nodes that Slurm may therefore have back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from extender.domain.events import PodEnd
from extender.domain.jobs.job import Mode
from extender.domain.placeholder import Placeholder
from extender.domain.states import BoundState


@dataclass(frozen=True, slots=True)
class Vacancy:
    """A slot whose node the job still has, without a Pod that runs, or may run, there or wants to."""

    slot: int
    slurm_node: str
    last: PodEnd | None
    """How its last Pod ended; `None`: it had none, as far as is known."""


def vacancies(p: Placeholder, size: int) -> tuple[Vacancy, ...]:
    """Return the vacant slots of a gang of this size whose members are all bound; none of a job that is kept."""
    job = p.job
    if not isinstance(p.payload, BoundState) or p.payload.kept_until or job is None or len(job.slots) < 2:
        return ()
    ends = {slot: member.end for slot, member in p.by_slot if member.end}
    used = {slot for slot, member in p.by_slot if not member.end}
    return tuple(
        Vacancy(slot, node, ends.get(slot))
        for slot, node in enumerate(job.slots[: max(size, p.size)])
        if slot not in used and p.has_node_for(slot)
    )


def unused_nodes(p: Placeholder, vacant: Iterable[Vacancy]) -> tuple[str, ...]:
    """Return the nodes of the job all of whose slots are among these, in Slurm's order."""
    job = p.job
    vacated = {one.slot for one in vacant}
    if job is None or not vacated:
        return ()
    open_ones = {node for slot, node in enumerate(job.slots) if slot not in vacated}
    free = {job.slots[slot] for slot in vacated} - open_ones
    return tuple(node for node in job.slurm_nodes if node in free)


def kept_nodes(p: Placeholder) -> tuple[str, ...]:
    """Return the nodes of members that have ended which Slurm does not take back before the job ends."""
    unused = unused_nodes(p, (one for one in vacancies(p, p.size) if one.last))
    host = batch_host(p)
    return tuple(node for node in unused if node == host or (p.job is not None and p.job.unshrinkable))


def batch_host(p: Placeholder) -> str:
    """Return the node on which the script of the job runs, which Slurm does not take back; "" without a script.

    How a job exists that a start found is not recorded: it may have a script.
    """
    nodes = p.slurm_nodes
    return nodes[0] if nodes and p.mode in {Mode.BATCH, None} else ""
