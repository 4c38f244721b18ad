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
    """One placeholder, the clock it lives on, and what its last event made it ask for."""

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
        while self.p.wake_at is not None and self.p.wake_at <= until and self.state is not State.GONE:
            fired += 1
            assert fired <= seconds + 100, f"the timer of {self.state} is always due"
            self.now = max(self.now, self.p.wake_at)
            self.notify(e.TimerFired())
            commands += self.commands
            checks += self.checks
        self.now, self.commands, self.checks = until, commands, checks
        return self

    def timer(self) -> Life:
        """Let time pass until the next timer, and fire it."""
        assert self.p.wake_at is not None, f"{self.state} owes no timer"
        self.now = max(self.now, self.p.wake_at)
        return self.notify(e.TimerFired())

    def asked(self, kind: type[C]) -> list[C]:
        """The commands of this kind that the last event led to."""
        return [command for command in self.commands if isinstance(command, kind)]

    def one(self, kind: type[C]) -> C:
        """The only command of this kind."""
        (command,) = self.asked(kind)
        return command

    def reasons(self) -> list[str]:
        """What the Pod's people were told, by reason."""
        return [str(said.reason) for said in self.asked(c.Announce)]

    def verdict(self, offered: frozenset[str] = NODES, uid: str = POD.uid) -> FilterVerdict:
        """What kube-scheduler would be told now."""
        return filter_verdict(self.p, uid, offered)

    def bind_refusal(self, node: str = "n1", uid: str = POD.uid) -> str:
        """What a Binding would be told now."""
        return bind_refusal(self.p, uid, node)


def in_state(
    state: State, key: str = "u", job: PlaceholderJob | None = None, kind: e.EndKind = e.EndKind.FAILED
) -> Placeholder:
    """A placeholder that is in this state without any history."""
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
    """The Pods ask for a place."""
    return e.PodWanted(refs or (POD,), request)


def grant(*nodes: str, job_id: int = JOB, refs: tuple[e.MemberRef, ...] = (POD, SECOND)) -> e.JobGranted:
    """The job runs; members take the nodes in turn."""
    allocation = {ref.uid: node for ref, node in zip(refs, nodes, strict=False)}
    return e.JobGranted(job_id, allocation, tuple(f"slurm-{node}" for node in nodes))


def absent() -> Life:
    """Wanted, but no list of nodes has come yet."""
    return Life().notify(wanted())


def submitting(*refs: e.MemberRef) -> Life:
    """A request is on its way to Slurm."""
    return Life().notify(wanted(*refs), e.CandidatesChanged(NODES))


def unsure() -> Life:
    """The answer to the request was lost."""
    return submitting().notify(e.SubmitUnknown(1, "connection reset"))


def waiting(*refs: e.MemberRef) -> Life:
    """The job queues in Slurm."""
    return submitting(*refs).notify(e.SubmitAccepted(1, JOB), e.JobWaiting(JOB, "Resources"))


def granted() -> Life:
    """Slurm gave n1; whether kubelet would admit the Pod there is being looked at."""
    return waiting().notify(grant("n1"))


def cleared() -> Life:
    """The node may be handed out, the Pod has been woken."""
    return granted().notify(e.AllocationFits(), e.WakeAnswered(POD.uid, True))


def binding() -> Life:
    """The Binding was sent."""
    return cleared().notify(e.BindStarted(POD.uid, "n1"))


def bound() -> Life:
    """The Pod runs on n1 for its job."""
    return binding().notify(e.PodBound(POD.uid, "n1", JOB))


def lost(kind: e.EndKind = e.EndKind.PREEMPTED) -> Life:
    """The job of the running Pod is over."""
    return bound().notify(e.JobEnded(JOB, kind, "Slurm job 7 was ended."))


def releasing() -> Life:
    """The waiting Pod was deleted, the cancel of its job is out."""
    return waiting().notify(e.PodEnding(POD.uid), e.PodGone(POD.uid, e.PodEnd.REMOVED))


def refused() -> Life:
    """A person cancelled the waiting job."""
    return waiting().notify(e.JobEnded(JOB, e.EndKind.CANCELLED, "Slurm job 7 was cancelled."))


def gone() -> Life:
    """Pod and job are over."""
    return releasing().notify(e.JobEnded(JOB, e.EndKind.CANCELLED))


def started(
    node: str = "",
    job_id: int | None = None,
    ending: bool = False,
    now: float = 1000.0,
    cancelled: Cancelled | None = None,
) -> Life:
    """The extender starts and finds the Pod: on `node`, with `job_id` recorded on it."""
    member = Member(POD, node=node, job_id=job_id if node else None, ending=ending)
    p = adopted(POD.uid, [member], title="team/train", job_id=job_id, now=now, timing=TIMING, cancelled=cancelled)
    return Life(p, now)
