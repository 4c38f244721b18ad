"""Lives of placeholders for tests: each is brought to its state by events alone, and validated after every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.jobs.cancelled import Cancelled
from extender.domain.jobs.job import JobRequest
from extender.domain.lifecycle.granted import needs_check
from extender.domain.lifecycle.machine import adopted, step
from extender.domain.placeholder import Member, Placeholder, State, Timing, validate
from extender.domain.states import (
    AbsentState,
    BoundState,
    GoneState,
    GrantedState,
    LostState,
    Payload,
    PlaceholderJob,
    RefusedState,
    ReleasingState,
    SubmittingState,
    UnsureState,
    WaitingState,
)
from extender.domain.verdict import FilterVerdict, bind_refusal, filter_verdict

C = TypeVar("C", bound=c.Command)

TIMING = Timing()
POD = e.MemberRef("uid-1", "team", "train")
SECOND = e.MemberRef("uid-2", "team", "train-2")
REQUEST = JobRequest(title="team/train", cpus=4, memory_mb=1024)
OTHER_REQUEST = JobRequest(title="team/train", cpus=8, memory_mb=1024)
NODES = frozenset({"n1", "n2", "n3"})
JOB = 7


@dataclass
class Life:
    """Hold one placeholder, its clock, and the commands of its last event."""

    p: Placeholder = field(default_factory=lambda: Placeholder(POD.uid))
    now: float = 1000.0
    commands: list[c.Command] = field(default_factory=list)
    checks: int = 0
    """How often the engine would have checked the allocation."""

    @property
    def state(self) -> State:
        return self.p.state

    @property
    def job(self) -> PlaceholderJob:
        assert self.p.job is not None
        return self.p.job

    def notify(self, *events: e.Event) -> Life:
        """Let things happen now; `commands` are those of all of them together."""
        self.commands, self.checks = [], 0
        for event in events:
            before = self.p
            self.p, commands = step(before, event, self.now, TIMING)
            validate(self.p)
            self.checks += needs_check(before, event, self.p)
            self.commands += commands
        return self

    def later(self, seconds: float) -> Life:
        """Let time pass. Timers that fall due fire, as the engine would fire them; commands add up."""
        until, commands, fired, checks = self.now + seconds, list[c.Command](), 0, 0
        while self.p.timer_at is not None and self.p.timer_at <= until and self.state is not State.GONE:
            fired += 1
            assert fired <= seconds + 100, f"the timer of {self.state} is always due"
            self.now = max(self.now, self.p.timer_at)
            self.notify(e.TimerFired())
            commands += self.commands
            checks += self.checks
        self.now, self.commands, self.checks = until, commands, checks
        return self

    def timer(self) -> Life:
        """Let time pass until the next timer, and fire it."""
        assert self.p.timer_at is not None, f"{self.state} owes no timer"
        self.now = max(self.now, self.p.timer_at)
        return self.notify(e.TimerFired())

    def commands_of(self, kind: type[C]) -> list[C]:
        """Return the commands of this kind that the last event led to."""
        return [command for command in self.commands if isinstance(command, kind)]

    def one(self, kind: type[C]) -> C:
        """Return the only command of this kind."""
        (command,) = self.commands_of(kind)
        return command

    def reasons(self) -> list[str]:
        """Return the Events for the Pod's users, by reason."""
        return [str(said.reason) for said in self.commands_of(c.Announce)]

    def verdict(self, offered: frozenset[str] = NODES, uid: str = POD.uid) -> FilterVerdict:
        """Return the answer that kube-scheduler would get now."""
        return filter_verdict(self.p, uid, offered)

    def bind_refusal(self, node: str = "n1", uid: str = POD.uid) -> str:
        """Return the answer that a Binding would get now."""
        return bind_refusal(self.p, uid, node)


def in_state(
    state: State, key: str = "u", job: PlaceholderJob | None = None, kind: e.EndKind = e.EndKind.FAILED
) -> Placeholder:
    """Return a placeholder that is in this state without any history."""
    job = job or PlaceholderJob(JOB)
    payloads: dict[State, Payload] = {
        State.ABSENT: AbsentState(),
        State.SUBMITTING: SubmittingState(),
        State.UNSURE: UnsureState(job),
        State.WAITING: WaitingState(job),
        State.GRANTED: GrantedState(job, ((POD.uid, "n1"),)),
        State.BOUND: BoundState(job, ((POD.uid, "n1"),)),
        State.LOST: LostState(job, ((POD.uid, "n1"),), kind, "", 0.0),
        State.RELEASING: ReleasingState(job),
        State.REFUSED: RefusedState(),
        State.GONE: GoneState(),
    }
    return Placeholder(key, payloads[state])


def wanted(*refs: e.MemberRef, request: JobRequest = REQUEST) -> e.PodWanted:
    """Return the event that the Pods request nodes."""
    return e.PodWanted(refs or (POD,), request)


def grant(*nodes: str, job_id: int = JOB, refs: tuple[e.MemberRef, ...] = (POD, SECOND)) -> e.JobGranted:
    """Return the event that the job runs; members take the nodes in turn."""
    allocation = {ref.uid: node for ref, node in zip(refs, nodes, strict=False)}
    return e.JobGranted(job_id, allocation, tuple(f"slurm-{node}" for node in nodes))


def absent() -> Life:
    """Return a wanted workload for which no list of nodes has come yet."""
    return Life().notify(wanted())


def submitting(*refs: e.MemberRef) -> Life:
    """Return a workload whose request is on its way to Slurm."""
    return Life().notify(wanted(*refs), e.CandidatesChanged(NODES))


def unsure() -> Life:
    """Return a workload whose answer from Slurm was lost."""
    return submitting().notify(e.SubmitUnknown(1, "connection reset"))


def waiting(*refs: e.MemberRef) -> Life:
    """Return a workload whose job queues in Slurm."""
    return submitting(*refs).notify(e.SubmitAccepted(1, JOB), e.JobWaiting(JOB, "Resources"))


def granted() -> Life:
    """Return a workload that got n1; the check whether kubelet would admit the Pod there is still open."""
    return waiting().notify(grant("n1"))


def cleared() -> Life:
    """Return a workload whose node may be handed out; its Pod has been woken."""
    return granted().notify(e.AllocationFits(), e.WakeAnswered(POD.uid, True))


def binding() -> Life:
    """Return a workload whose Binding was sent."""
    return cleared().notify(e.BindStarted(POD.uid, "n1"))


def bound() -> Life:
    """Return a workload whose Pod runs on n1 for its job."""
    return binding().notify(e.PodBound(POD.uid, "n1", JOB))


def lost(kind: e.EndKind = e.EndKind.PREEMPTED) -> Life:
    """Return a workload whose Pod runs and whose job is over."""
    return bound().notify(e.JobEnded(JOB, kind, "Slurm job 7 was ended."))


def releasing() -> Life:
    """Return a workload whose waiting Pod was deleted; the cancel of its job is out."""
    return waiting().notify(e.PodEnding(POD.uid), e.PodGone(POD.uid, e.PodEnd.REMOVED))


def refused() -> Life:
    """Return a workload whose waiting job an administrator cancelled."""
    return waiting().notify(e.JobEnded(JOB, e.EndKind.CANCELLED, "Slurm job 7 was cancelled."))


def gone() -> Life:
    """Return a workload whose Pod and job are over."""
    return releasing().notify(e.JobEnded(JOB, e.EndKind.CANCELLED))


def started(
    node: str = "",
    job_id: int | None = None,
    ending: bool = False,
    now: float = 1000.0,
    cancelled: Cancelled | None = None,
) -> Life:
    """Start the extender and find the Pod: on `node`, with `job_id` recorded on it."""
    member = Member(POD, node=node, job_id=job_id if node else None, ending=ending)
    p = adopted(POD.uid, [member], title="team/train", job_id=job_id, now=now, timing=TIMING, cancelled=cancelled)
    return Life(p, now)
