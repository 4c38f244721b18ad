"""The moves that rules of several states make: rest, refuse, try again, release, lose."""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.fates.ends import ENDS
from extender.domain.jobs.cancelled import HOW_TO_ASK_AGAIN, Cancelled, digest
from extender.domain.jobs.changes import NOT_TOLD, can_follow, can_follow_running, changed, while_running
from extender.domain.jobs.job import Mode
from extender.domain.jobs.resize import outgrown
from extender.domain.jobs.wishes import as_asked
from extender.domain.lifecycle.table import (
    ABSENT,
    GONE,
    LOST,
    REFUSED,
    RELEASING,
    SUBMITTING,
    UNSURE,
    WAITING,
    At,
    Step,
)
from extender.domain.placeholder import Placeholder, Timing
from extender.domain.renewal import replace
from extender.domain.wellknown import Reason

ANOTHER = "It is given back, and another job is submitted."
"""What follows where a job was taken before its Pods were bound."""

NO_NODE = "No Node meets the Pod's node selector, node affinity and tolerations; no job is submitted before one does."


def announce(p: Placeholder, reason: Reason, text: str, warning: bool = False) -> c.Announce:
    """A sentence for the workload's people."""
    return c.Announce(p.refs, reason, text, warning)


def back_off(failures: int, timing: Timing) -> float:
    """Seconds before the attempt after `failures` fruitless ones: doubling, bounded."""
    return float(min(timing.retry_first * 2 ** max(0, min(failures, 20) - 1), timing.retry_most))


def _jobless(p: Placeholder) -> Placeholder:
    p = replace(p, job_id=None, job_alive=False, mode=None, told=(), ends_at=0.0, declined=None)
    return replace(p, allocation=(), slurm_nodes=(), devices=(), wake_at=None)


def rest(p: Placeholder, at: At) -> Step:
    """No job exists: submit if the workload wants one and may have it now; else say where it rests."""
    if p.charged:
        return lose(p, e.EndKind.FAILED, "The Slurm job of this Pod does not exist any more.", at, alive=False)
    before, p = p.reason, replace(_jobless(p), reason="")
    if p.over:
        return replace(p, state=GONE, wake_at=at.now + at.timing.forget), []
    if p.faults:
        # What was asked before is no reason to refuse a Pod whose settings are put right again.
        refused = replace(p, state=REFUSED, asked=None, reason="; ".join(p.faults))
        return refused, [c.Announce(p.refs, Reason.INVALID, "The Pod's Slurm settings are not usable.", True, p.faults)]
    if p.refusal:
        return refuse(p, Reason.REFUSED, p.refusal)
    if p.placed:
        refused = replace(
            p, state=REFUSED, asked=p.request, reason="bound by somebody else; Slurm does not account for it"
        )
        return refused, [announce(p, Reason.BOUND_ELSEWHERE, "The Pod was bound without a Slurm allocation.", True)]
    if p.wants and p.cancelled is not None and p.cancelled.speaks_of(p.request):
        return refuse(p, Reason.CANCELLED, p.cancelled.text)
    if not p.wants or p.request is None or p.candidates is None:
        return replace(p, state=ABSENT), []
    if not p.candidates:  # the next list brings some
        said = [announce(p, Reason.WAITING, NO_NODE)] if before != NO_NODE else []
        return replace(p, state=ABSENT, reason=NO_NODE), [*said]
    if at.now < p.retry_at:
        return replace(p, state=ABSENT, wake_at=p.retry_at), []
    # When every candidate has been refused once, what refused it may have passed: all are tried again.
    avoided = frozenset[str]() if p.candidates <= p.refused_nodes else p.refused_nodes
    request, attempt = p.request, p.attempt + 1
    submit = c.SubmitJob(attempt, request, p.candidates - avoided if avoided else p.candidates, p.queue)
    p = replace(p, state=SUBMITTING, attempt=attempt, asked=request, title=request.title, refused_nodes=avoided)
    return replace(p, follow_owed=False), [submit]


def refuse(p: Placeholder, reason: Reason, text: str) -> Step:
    """A person or Slurm said no: rest until the Pod or the configuration changes."""
    p = _jobless(p)
    p = replace(p, state=REFUSED, reason=text, refusal="", queue=False, asked=p.request)
    return p, [announce(p, reason, text, True)]


def later(p: Placeholder, at: At) -> Placeholder:
    """Let the next attempt wait, longer each time until an attempt succeeds."""
    failures = p.failures + 1
    return replace(p, failures=failures, retry_at=at.now + back_off(failures, at.timing), queue=False)


def again(p: Placeholder, at: At, text: str, reason: Reason = Reason.RETRYING) -> Step:
    """The attempt came to nothing: try again after a back-off."""
    after, commands = rest(later(p, at), at)
    if after.state is ABSENT:
        after = replace(after, reason=text)
    return after, [announce(p, reason, text, True), *commands]


def release(p: Placeholder, why: str, at: At, *said: c.Command) -> Step:
    """End the job, and repeat that until its end is seen; but first the Pods that run on its account."""
    if p.charged:
        after, commands = lose(p, e.EndKind.FAILED, why, at, alive=True)
        return after, [*said, *commands]
    if p.job_id is None:
        after, commands = rest(p, at)
        return after, [*said, *commands]
    released = replace(p, state=RELEASING, wake_at=at.now + at.timing.cancel_retry, allocation=(), reason=why)
    return released, [*said, c.CancelJob(p.job_id, why, p.outcome, script_exit(p))]


def script_exit(p: Placeholder) -> int | None:
    """How the script of the job may end by itself, where there may be one."""
    return p.exit_code if p.mode in {Mode.BATCH, None} else None


def taken(p: Placeholder, event: e.JobEnded, at: At) -> Step:
    """Slurm took a job back that is not over: its launch or its Prolog failed, say, or somebody requeued it."""
    return release(later(p, at), event.text, at, announce(p, Reason.GIVEN_BACK, f"{event.text} {ANOTHER}", True))


def lose(p: Placeholder, kind: e.EndKind, text: str, at: At, alive: bool) -> Step:
    """The allocation goes while Pods are there: end them. Where none is left, only the job is to end."""
    if not p.charged:
        return release(p, text, at) if alive else rest(p, at)
    p = replace(p, state=LOST, end_kind=kind, end_text=text, job_alive=alive, lost_at=at.now, reason=text)
    return end_pods(p, at, [announce(p, Reason.LOST, text, True)])


def end_pods(p: Placeholder, at: At, said: list[c.Command]) -> Step:
    """Ask Kubernetes to end every member that is on a node of the job, and again until they are gone.

    Also those that are ending: by somebody else's request, perhaps, without our reason and with a longer grace.
    """
    kind = p.end_kind or e.EndKind.FAILED
    rule, evicted_by = ENDS[kind], p.lost_at + at.timing.eviction_deadline
    voluntary = rule.voluntary and at.now < evicted_by
    by = p.ends_at or (p.lost_at + at.timing.kill_wait if rule.hurried else 0.0)
    ends: list[c.Command] = [
        c.EndPod(member.ref, kind, p.end_text, voluntary, by)
        for member in p.members
        if p.charges(member) and member.node
    ]
    tries = p.tries + 1 if all(member.ending for member in p.members if p.charges(member)) else 0
    wake_at = at.now + min(at.timing.end_retry * 2 ** min(tries, 10), at.timing.end_retry_most)
    return replace(p, tries=tries, wake_at=min(wake_at, evicted_by) if voluntary else wake_at), said + ends


def with_limit(p: Placeholder, event: e.JobGranted, at: At) -> Placeholder:
    """Remember when the time limit of the job comes near. Every reading says so anew, not quite the same."""
    due = None if event.due_in is None else at.now + event.due_in
    if due is not None and p.limit_at is not None and abs(due - p.limit_at) < 1.0:
        return p
    return p if due == p.limit_at else replace(p, limit_at=due)


def ends_at(event: e.JobEnding, at: At) -> float:
    """When Slurm ends the job, on the clock of the steps; 0.0 where unknown."""
    return 0.0 if event.ends_in is None else at.now + event.ends_in


def about_to_end(event: e.JobEnding) -> str:
    """Why Pods are told to end before their job."""
    if event.kind is e.EndKind.TIME_LIMIT:
        return f"The time limit of Slurm job {event.job_id} is near, and Pods on it must be gone by then."
    return f"Slurm is about to end job {event.job_id} ({event.kind})."


def without_effect(p: Placeholder) -> str:
    """What is said where the Pod of a job that has its nodes asks for something else."""
    return (
        f"Slurm job {p.job_id} has its node already, so that the Pod's new settings have no effect on it. "
        "Only its comment and a shorter time limit follow the Pod; an operator may give it more time with scontrol."
    )


def not_accounted(p: Placeholder, more: str) -> str:
    """What is said of a Pod that was resized to more than its job holds."""
    return (
        f"The Pod was resized and asks for {more}; Slurm job {p.job_id} stays as it is, since Slurm gives no more to a "
        "job that runs. What is above it Slurm may give to others: make the Pod smaller again, or create it anew."
    )


def learn_asked(p: Placeholder) -> Placeholder:
    """Work out what a job that was found was asked for, as soon as it is known what its Pod asks now.

    The mark of the job tells in which wishes the Pod has changed since, or that nothing has.
    """
    if p.asked is not None or p.request is None:
        return p
    return replace(p, asked=as_asked(p.found_wishes, p.request), found_wishes=())


def follow_running(p: Placeholder) -> Step:
    """Tell the running job what its Pod asks now, as far as Slurm changes that; of the rest a word, once."""
    if p.asked is None or p.request is None or p.job_id is None or p.updating is not None:
        return p, []
    request = while_running(p.asked, p.request)
    if request in (p.asked, p.declined):
        return p, []
    if not changed(p.asked, request) - NOT_TOLD:
        return replace(p, asked=request), []
    if can_follow_running(p.asked, request):
        return replace(p, updating=request), [c.UpdateJob(p.job_id, p.asked, request, None, p.told, p.mode)]
    p = replace(p, declined=request)
    if p.asked is not None and (more := outgrown(p.asked, request)):
        return p, [announce(p, Reason.UNACCOUNTED, not_accounted(p, more), True)]
    return p, [announce(p, Reason.WITHOUT_EFFECT, without_effect(p), True)]


def doubt(p: Placeholder, at: At) -> tuple[Placeholder, bool]:
    """What is known of a waiting job may be for want of information: look again, and be sure only after a while."""
    since = at.now if p.doubted_since is None else p.doubted_since
    sure = at.now - since >= at.timing.doubt
    if sure:
        return p, True
    return replace(p, doubted_since=since, unread=False, wake_at=at.now + at.timing.cancel_retry), False


def job_ended(p: Placeholder, event: e.JobEnded, at: At) -> Step:
    """The job of a workload whose Pods are not running is over."""
    if event.kind is e.EndKind.CANCELLED:
        return _cancelled_by_somebody(p, event)
    if event.kind is e.EndKind.IMPOSSIBLE:
        return refuse(replace(p, fits_nowhere=event.nowhere), Reason.REFUSED, event.text)
    return again(p, at, event.text)


def _cancelled_by_somebody(p: Placeholder, event: e.JobEnded) -> Step:
    """An answer to the Pod, and to this process only until it is written on the Pod."""
    after, commands = refuse(p, Reason.CANCELLED, f"{event.text} {HOW_TO_ASK_AGAIN}")
    if p.request is None:
        return after, commands
    after = replace(after, cancelled=Cancelled(event.job_id, digest(p.request)))
    after = replace(after, note_owed=frozenset(member.ref.uid for member in p.members if not member.end))
    return after, [*commands, *note_cancelled(after)]


def note_cancelled(p: Placeholder) -> list[c.Command]:
    """Write the cancel on the members that do not bear it yet."""
    if p.cancelled is None:
        return []
    owed = [member.ref for member in p.members if member.ref.uid in p.note_owed and not member.end]
    return [c.NoteCancelled(ref, p.cancelled) for ref in owed]


def wait(p: Placeholder, at: At, *said: c.Command) -> Step:
    """The job exists; whether it has been granted is not known yet."""
    p = replace(p, state=WAITING, wake_at=at.now + at.timing.cancel_retry if p.charged else None)
    after, commands = follow(p)
    return after, [*said, *commands]


def follow(p: Placeholder) -> Step:
    """Tell the waiting job which nodes to avoid now, if they changed and nothing is being told."""
    usable = _usable(p)
    busy = p.following or p.updating is not None
    if busy or not p.follow_owed or p.job_id is None or p.asked is None or usable is None:
        return p, []
    command = c.FollowCandidates(p.job_id, p.asked, usable, p.told, p.mode)
    return replace(p, follow_owed=False, following=True), [command]


def _usable(p: Placeholder) -> frozenset[str] | None:
    if p.candidates is None or not p.refused_nodes:
        return p.candidates
    return (p.candidates - p.refused_nodes) or p.candidates


def catch_up(p: Placeholder) -> Step:
    """Tell the waiting job what its Pod asks now, then which nodes to avoid; one request at a time."""
    if p.following or p.updating is not None:
        return p, []
    if p.job_id is None or p.asked is None or p.request is None or p.charged:
        return follow(p)
    if p.request in (p.asked, p.declined) or not can_follow(p.asked, p.request):
        return follow(p)
    command = c.UpdateJob(p.job_id, p.asked, p.request, _usable(p), p.told, p.mode)
    return replace(p, updating=p.request), [command]


def claimed(p: Placeholder, job_id: int, at: At) -> Step:
    """A member is on a node for a job that is not this workload's as far as is known: whoever was here before bound it.

    It is told late: by an API server whose cache lags behind, or by a Binding that was long on its way. Whether that
    job runs is asked of Slurm, as at a start; only Slurm says which of the workload's jobs stays.
    """
    p = replace(_jobless(p), state=UNSURE, job_id=job_id, asked=None, empties=0, reason="bound by an earlier process")
    # If it was a duplicate, its end has been asked for already, and may or may not have come about.
    p = replace(
        p, duplicate_jobs=p.duplicate_jobs - {job_id}, wake_at=at.now, sure_at=at.now + at.timing.settle_at_start
    )
    return replace(p, reprobe_at=at.now + at.timing.settle), []


def misplaced(p: Placeholder, node: str, at: At) -> Step:
    """A member runs on another node than its job's: the job holds the wrong one, and the Pod is not ours to end."""
    text = f"The Pod was bound to {node}, not to the node of its Slurm job; the job is ended."
    return release(p, text, at, announce(p, Reason.BOUND_ELSEWHERE, text, True))
