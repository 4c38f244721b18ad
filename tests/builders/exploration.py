"""A small world for one workload: how its placeholder may begin, and each event that it may get, also false or late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from extender.domain import events as e
from extender.domain.jobs.cancelled import Cancelled, digest
from extender.domain.jobs.job import GangRestart, JobRequest
from extender.domain.lifecycle.machine import adopted, step
from extender.domain.placeholder import Member, Placeholder, State, Timing
from extender.domain.states import (
    GrantedState,
    LostState,
    Payload,
    RefusedState,
    ReleasingState,
    UnsureState,
    WaitingState,
)

PODS = (e.MemberRef("a", "ns", "a"), e.MemberRef("b", "ns", "b"))
REQUESTS = (JobRequest("t", 1, 1), JobRequest("t", 2, 1))
RESIZED = JobRequest("t", 1, 1, members=2)
KEPT = JobRequest("t", 1, 1, members=2, restart=GangRestart.KEEP_ALLOCATION)
TIMING = Timing()
NOW = 1000.0


def events(p: Placeholder, refs: tuple[e.MemberRef, ...]) -> Iterator[e.Event]:
    """Yield every event that this placeholder could receive now, also from a late answer."""
    own = p.job_id or 1
    other = own + 1 if own + 1 not in p.duplicate_jobs else own + 2
    yield from (e.PodWanted(refs, request) for request in REQUESTS)
    yield e.PodWanted(refs, REQUESTS[0], cancelled=Cancelled(9, digest(REQUESTS[0])))
    if p.state is State.GRANTED and len(refs) > 1:
        yield e.PodWanted(refs[:1], REQUESTS[0])  # the other one fits into no slot of the gang
    if p.state is State.WAITING:
        yield e.PodWanted(refs, RESIZED)
    yield e.PodRefused(refs, ("wrong",))
    yield e.PodRefused(refs, ())  # a gang that lacks a member
    yield from (e.CandidatesChanged(frozenset(nodes)) for nodes in (("n1",), ("n2",)))
    yield e.SlurmSnapshotChanged()
    for ref in refs:
        yield from _pod_events(p, ref, own, other)
    yield e.NodeRefused("n1", "no")
    for attempt in {p.attempt, p.attempt - 1}:
        yield from (e.SubmitAccepted(attempt, job) for job in (own, other))
        yield e.SubmitAccepted(attempt, own, behind=True)
        yield from (e.SubmitRefused(attempt, permanent, "no") for permanent in (True, False))
        yield e.SubmitRefused(attempt, permanent=False, text="busy", queue=True)
        yield e.SubmitRefused(attempt, permanent=False, text="too large", nowhere=True)
        yield e.SubmitRefused(attempt, permanent=True, text="no such node", number=2014)
        yield from (e.SubmitUnknown(attempt, "lost", sent) for sent in (True, False))
    yield e.ProbeFailed("down")
    yield e.ProbeAnswered(())
    yield from (e.ProbeAnswered((e.JobFound(job, p.attempt, running=False),)) for job in (own, other))
    yield e.ProbeAnswered((e.JobFound(own, 1, running=False), e.JobFound(other, 2, running=True)))
    for job in (own, other):
        yield from _job_events(job, refs)
    yield e.AllocationFits()
    yield e.AllocationBusy("busy")
    yield e.AllocationMisfits("n1", "full")
    yield e.AllocationUnfenced("no fence")
    yield e.NodesVacated(("n1",))
    for job in (own, other):
        yield from (e.ShrinkAnswered(job, done) for done in (True, False, None))
    yield e.TimerFired()


def _pod_events(p: Placeholder, ref: e.MemberRef, own: int, other: int) -> Iterator[e.Event]:
    yield e.PodEnding(ref.uid)
    yield e.PodGone(ref.uid, e.PodEnd.REMOVED)
    member = p.member(ref.uid) or Member(ref)
    if p.state in {State.GRANTED, State.BOUND} and not member.node:
        yield e.BindStarted(ref.uid, p.node_of(ref.uid))
    if member.node:  # a Pod never moves
        yield e.PodBound(ref.uid, member.node, member.job_id)
    else:
        yield e.BindFailed(ref.uid, "409")
        yield from (e.PodBound(ref.uid, "n1", job) for job in (own, other, None))
        yield from (e.PodBound(ref.uid, "n2", job) for job in (own, None))
    yield from (e.EvictAnswered(ref.uid, accepted) for accepted in (True, False))
    yield from (e.WakeAnswered(ref.uid, accepted) for accepted in (True, False))
    yield from (e.CancelNoted(ref.uid, accepted) for accepted in (True, False))


def _job_events(job: int, refs: tuple[e.MemberRef, ...]) -> Iterator[e.Event]:
    yield e.JobWaiting(job, "Priority")
    for node in ("n1", "n2"):
        yield e.JobGranted(job, {ref.uid: node for ref in refs}, (node,))
    yield e.JobGranted(job, {}, ("x",), unmapped=("x",))
    yield e.JobGranted(job, {ref.uid: "n1" for ref in refs}, ("n1",), lacking="too small")
    yield e.JobEnding(job, e.EndKind.PREEMPTED, 30.0)
    yield from (e.JobEnded(job, kind) for kind in (e.EndKind.CANCELLED, e.EndKind.IMPOSSIBLE, e.EndKind.FAILED))
    yield e.JobEnded(job, e.EndKind.REQUEUED, alive=True)
    yield e.JobEnded(job, e.EndKind.IMPOSSIBLE, alive=True)
    yield e.JobEnded(job, e.EndKind.IMPOSSIBLE, alive=True, nowhere=True)
    yield from (e.CancelAnswered(job, ended) for ended in (True, False))
    yield from (e.FollowAnswered(job, applied) for applied in ((), None))
    yield from (e.UpdateAnswered(job, REQUESTS[0], done) for done in (True, False, None))
    yield e.UpdateAnswered(job, RESIZED, False)


def _kept() -> Iterator[Placeholder]:
    """Yield the running job of an incarnation that is over, kept for the next one; its time is over at `NOW`."""
    earlier = (e.MemberRef("c", "ns", "c"), e.MemberRef("d", "ns", "d"))
    history: tuple[e.Event, ...] = (
        e.PodWanted(earlier, KEPT),
        e.CandidatesChanged(frozenset({"n1"})),
        e.SubmitAccepted(1, 1),
        e.JobGranted(1, {ref.uid: "n1" for ref in earlier}, ("n1",)),
        e.AllocationFits(),
        *(e.PodBound(ref.uid, "n1", 1) for ref in earlier),
        *(e.PodGone(ref.uid, e.PodEnd.REMOVED) for ref in earlier),
    )
    p = Placeholder("u")
    for event in history:
        p, _ = step(p, event, NOW - 2 * TIMING.replace, TIMING)
    yield p


def beginnings(refs: tuple[e.MemberRef, ...]) -> Iterator[Placeholder]:
    yield Placeholder("u")
    yield from _kept()
    wanted = (e.PodWanted(refs, REQUESTS[0]), e.CandidatesChanged(frozenset({"n1"})))
    granted = (e.SubmitAccepted(1, 1), e.JobGranted(1, {ref.uid: "n1" for ref in refs}, ("n1",)), e.AllocationFits())
    first, last = refs[0].uid, refs[-1].uid
    one_bound = (*granted, e.BindStarted(first, "n1"), e.PodEnding(last), e.PodBound(first, "n1", 1))
    far: tuple[tuple[e.Event, ...], ...] = (  # what would be met late
        (e.SubmitUnknown(1, "lost"), e.ProbeAnswered(())),
        (*granted, e.BindStarted(last, "n1"), e.JobEnded(1, e.EndKind.FAILED)),
        (*granted, e.BindStarted(last, "n1"), e.JobEnded(1, e.EndKind.REQUEUED, alive=True)),
        (*one_bound, e.BindStarted(last, "n1"), e.PodGone(first, e.PodEnd.REMOVED)),
    )
    for history in far:
        p = Placeholder("u")
        for event in (*wanted, *history):
            p, _ = step(p, event, NOW, TIMING)
            yield p
    p = Placeholder("u")  # the last Pod comes when the others run
    earlier = refs[:1]
    later: tuple[e.Event, ...] = (
        e.PodWanted(earlier, REQUESTS[0]),
        e.CandidatesChanged(frozenset({"n1"})),
        e.SubmitAccepted(1, 1),
        e.JobGranted(1, {ref.uid: "n1" for ref in earlier}, ("n1",)),
        *(e.PodBound(ref.uid, "n1", 1) for ref in earlier),
        e.PodWanted(refs, REQUESTS[0]),
    )
    for event in later:
        p, _ = step(p, event, NOW, TIMING)
        yield p
    p = Placeholder("u")  # it comes to a node of its own, which Slurm may take back before it is bound
    two = ("n1", "n2")
    apart: tuple[e.Event, ...] = (
        e.PodWanted(earlier, REQUESTS[0]),
        e.CandidatesChanged(frozenset(two)),
        e.SubmitAccepted(1, 1),
        e.JobGranted(1, {ref.uid: "n1" for ref in earlier}, two, slots=two),
        *(e.PodBound(ref.uid, "n1", 1) for ref in earlier),
        e.PodWanted(refs, REQUESTS[0]),
        e.JobGranted(1, dict(zip((ref.uid for ref in refs), two, strict=False)), two, slots=two),
    )
    for event in apart:
        p, _ = step(p, event, NOW, TIMING)
        yield p
    for node, job, ending in product(("", "n1"), (None, 1), (False, True)):
        members = [Member(ref, node=node, job_id=job if node else None, ending=ending) for ref in refs]
        yield adopted("u", members, title="t", job_id=job, now=NOW, timing=TIMING)
        said_no = Cancelled(1, digest(REQUESTS[0]))
        yield adopted("u", members, title="t", job_id=job, now=NOW, timing=TIMING, cancelled=said_no)


def instants(p: Placeholder, event: e.Event) -> tuple[float, ...]:
    if isinstance(event, e.TimerFired):
        return (max(p.timer_at or NOW, NOW), NOW + 500.0)
    if isinstance(event, e.ProbeAnswered | e.CandidatesChanged):
        return (NOW, NOW + 500.0)
    return (NOW,)


def rebased(p: Placeholder, now: float) -> Placeholder:
    """Return the same placeholder as if it were `NOW`, with numbers that only ever grow kept small."""

    def at(instant: float | None) -> float | None:
        return None if instant is None else NOW + instant - now

    def payload() -> Payload:
        match p.payload:
            case UnsureState() as unsure:
                return replace(
                    unsure,
                    sure_at=max(NOW - 1, unsure.sure_at - now + NOW),
                    empty_probes=min(unsure.empty_probes, 2),
                    failed_probes=min(unsure.failed_probes, 1),
                )
            case WaitingState() as waiting:
                return replace(waiting, doubted_since=at(waiting.doubted_since), reads=min(waiting.reads, 1))
            case GrantedState() as granted:
                failed = min(granted.failed_wakes, 1)
                return replace(granted, missing_since=at(granted.missing_since), failed_wakes=failed)
            case LostState() as lost:
                lost_at = max(NOW - 60, lost.lost_at - now + NOW)
                return replace(lost, lost_at=lost_at, repeats=min(lost.repeats, 1))
            case ReleasingState() as releasing:
                return replace(releasing, cancels=min(releasing.cancels, 1))
            case other:
                return other

    return replace(
        p,
        payload=payload(),
        timer_at=at(p.timer_at),
        reprobe_at=at(p.reprobe_at),
        retry_at=max(NOW - 1, p.retry_at - now + NOW),
        attempt=min(p.attempt, 2),
        failures=min(p.failures, 1),
        duplicate_jobs=frozenset(sorted(p.duplicate_jobs)[:1]),
    )


def essence(p: Placeholder, now: float) -> tuple[object, ...]:
    """Return the identity of a placeholder here: no texts, and of instants only whether they are in the future."""

    def due(instant: float | None) -> bool | None:
        return None if instant is None else instant > now

    return (
        p.state,
        p.members,
        None if p.request is None else p.request.cpus,
        None if p.submitted_request is None else p.submitted_request.cpus,
        bool(p.faults),
        bool(p.refusal),
        p.cancelled is None,
        p.candidates,
        p.refused_nodes,
        p.fits_nowhere,
        p.queue_next,
        p.job_id,
        p.exclusions_changed,
        p.allocation,
        tuple(member.ref.uid for member in p.stranded),
        bool(p.duplicate_jobs),
        due(p.retry_at),
        due(p.reprobe_at),
        *_payload_essence(p.payload, now),
    )


def _payload_essence(payload: Payload, now: float) -> tuple[object, ...]:
    match payload:
        case UnsureState():
            return payload.sure_at > now, payload.empty_probes > 0
        case WaitingState():
            return payload.update, payload.doubted_since is None, payload.unread
        case GrantedState():
            return payload.cleared, payload.missing_since is None
        case LostState():
            return payload.end_kind, payload.job_alive
        case RefusedState():
            return (len(payload.unrecorded),)
        case _:
            return ()
