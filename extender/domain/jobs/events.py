"""Turn a job that was read into events of its placeholder: those of `job_outcomes`, with Kubernetes' nodes."""

from __future__ import annotations

from collections.abc import Mapping, Set

from extender.domain import events as e
from extender.domain.gangs.layout import assigned
from extender.domain.job_outcomes import slurm_states as o
from extender.domain.jobs.job import JobRequest, JobView
from extender.domain.jobs.time_limit import says_too_long, whence
from extender.domain.nodes.mapping import NodeMap
from extender.domain.placeholder import Member, Placeholder
from extender.domain.renewal import replace


def job_events(
    p: Placeholder, job: JobView, node_map: NodeMap, due_in: float | None = None, down: Set[str] = frozenset()
) -> list[e.Event]:
    """Return the events that follow from this reading of the job; none if nothing changed.

    `due_in`: seconds until its Pods have to end because of its time limit. A limit that is due is announced.
    `down`: nodes that Slurm reports as DOWN.

    Until the node mapping is known, a grant yields no event, and is read again afterwards. The same holds for a grant
    whose nodes Slurm does not report. An empty mapping says nothing about this job.
    """
    match o.observe(job):
        case o.Waiting() as waiting:
            text = waiting.text
            if says_too_long(waiting.reason):
                text = f"{text} {whence(p.submitted_request or p.request, job.time_limit_minutes)}".rstrip()
            if waiting.impossible and node_map.known:
                nowhere = o.wants_of_nodes(job.reason)
                return [e.JobEnded(job.job_id, e.EndKind.IMPOSSIBLE, text, alive=True, nowhere=nowhere)]
            return [e.JobWaiting(job.job_id, text)]
        case o.Running() | o.Ending() if not (node_map.known and job.nodes):
            return []
        case o.Running() as running:
            failed = tuple(node for node in p.slurm_nodes if node in down and node not in job.nodes)
            granted = replace(_granted(p, job, node_map), due_in=due_in, failed=failed)
            if due_in is None or due_in > 0:
                return [granted]
            return [granted, e.JobEnding(job.job_id, e.EndKind.TIME_LIMIT, running.ends_in)]
        case o.Ending() as ending:
            # A job whose end is announced was granted first; a workload that does not know the grant must not start.
            return [_granted(p, job, node_map), e.JobEnding(job.job_id, ending.kind, ending.ends_in)]
        case o.Ended() as ended:
            nowhere = ended.kind is e.EndKind.IMPOSSIBLE and o.wants_of_nodes(job.reason)
            return [e.JobEnded(job.job_id, ended.kind, ended.text, ended.alive, nowhere)]
        case _:
            return []


def _granted(p: Placeholder, job: JobView, node_map: NodeMap) -> e.JobGranted:
    """Return the grant: the node of each slot, and the Node of each member.

    A member that was bound for a node of this job stays on its Node, whichever Node that Slurm node is mapped to now;
    also on one that Slurm took from the job since.
    """
    bound = [m for m in p.members if m.node and m.job_id == job.job_id and m.slurm_node and not m.end]
    here = {*job.nodes, *_taken(p, job, {m.slurm_node for m in bound})}
    stays = {m.ref.uid: m for m in bound if m.slurm_node in here}
    settled = {member.slurm_node for member in stays.values()}
    unmapped = tuple(node for node in job.nodes if node not in node_map.kubernetes and node not in settled)
    slots = _slots(p, job, stays)
    allocation: dict[str, str] = {}
    if job.nodes and not unmapped:
        for slot, member in p.by_slot:
            uid, given = member.ref.uid, slots[slot] if slot < len(slots) else ""
            node = stays[uid].node if uid in stays else node_map.kubernetes.get(given) if given in job.nodes else None
            if node is not None and not member.end:
                allocation[uid] = node
    lacking = _lacking(p.submitted_request or p.request, job)
    return e.JobGranted(job.job_id, allocation, job.nodes, unmapped, lacking, devices=job.devices, slots=slots)


def _taken(p: Placeholder, job: JobView, used: Set[str]) -> Set[str]:
    """Return the nodes with members that the job had, if it runs on fewer now. A requeued job has as many."""
    if used <= set(job.nodes) or not used & set(job.nodes):
        return frozenset()
    if p.job is not None and p.job.job_id == job.job_id and p.job.slots:
        had = set(p.job.slots)
        return used & had if set(job.nodes) <= had else frozenset()
    return used if len(used | set(job.nodes)) <= p.size else frozenset()


def _slots(p: Placeholder, job: JobView, stays: Mapping[str, Member]) -> tuple[str, ...]:
    """Return the node of each slot. A job that gave up nodes leaves the other slots as they are."""
    known = p.job
    shrunk = known is not None and known.job_id == job.job_id and set(job.nodes) <= set(known.slurm_nodes)
    kept = {slot: node for slot, node in enumerate(known.slots) if node} if known is not None and shrunk else {}
    kept |= {slot: stays[member.ref.uid].slurm_node for slot, member in p.by_slot if member.ref.uid in stays}
    return assigned(job.nodes, max(p.size, len(job.nodes)), kept, job.places or None)


def _lacking(request: JobRequest | None, job: JobView) -> str:
    """Return a sentence if the job holds less than requested, else "": its owner may have changed it (scontrol)."""
    if request is None:
        return ""
    cpus = request.cpus * request.members
    if job.cpus and job.cpus < cpus:
        return f"Slurm job {job.job_id} holds {job.cpus} CPUs, the Pod needs {cpus}; the job is released."
    if not request.tres_per_node:
        for name, count in request.gres.items():
            held = _held(job, name)
            if held is not None and held < count * request.members:
                return f"Slurm job {job.job_id} holds {held} of {name}, the Pod needs {count}; the job is released."
    return ""


def _held(job: JobView, name: str) -> int | None:
    """Return the count of a GRES that the job holds; `None`: Slurm does not report it."""
    if not job.gres:
        return None
    if name in job.gres:
        return job.gres[name]
    kind = name.partition(":")[0]
    if ":" in name and kind in job.gres and not any(other.startswith(f"{kind}:") for other in job.gres):
        return job.gres[kind]
    return sum(count for other, count in job.gres.items() if other.partition(":")[0] == kind) if ":" not in name else 0
