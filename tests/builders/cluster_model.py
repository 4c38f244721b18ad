"""A model of Slurm and Kubernetes around one workload: what is true, what has been said, and what is still on its way.

The extender's side of it is the placeholder alone; everything between it and the two clusters can be lost, late,
repeated or overtaken, as far as TCP, slurmctld and a watch allow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.jobs.cancelled import Cancelled
from extender.domain.jobs.job import JobRequest
from extender.domain.lifecycle.granted import needs_check
from extender.domain.lifecycle.machine import adopted, step
from extender.domain.placeholder import Member, Placeholder, State, Timing, validate
from extender.domain.verdict import Place, Wait, bind_refusal, filter_verdict

NODES = ("n1", "n2", "n3")
UNMAPPED = "x1"
REQUESTS = (JobRequest("team/train", 1, 1), JobRequest("team/train", 2, 1))
TIMING = Timing()


class JobState(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    REQUEUED = "REQUEUED"
    ENDED = "ENDED"


class Fault(StrEnum):
    """Name a fault of one request."""

    NONE = "none"
    REFUSED = "refused"
    NEVER_ARRIVED = "never arrived"
    ANSWER_LOST = "answer lost"
    LATE = "carried out late"


@dataclass
class Job:
    """A job of the workload, as slurmctld has it."""

    job_id: int
    attempt: int
    state: JobState = JobState.PENDING
    node: str = ""
    kind: e.EndKind = e.EndKind.FAILED
    warned: bool = False
    disturbed: bool = False
    """Slurm or an administrator took its node, or announced it; only then may its Pods be ended."""

    @property
    def live(self) -> bool:
        return self.state is not JobState.ENDED


@dataclass
class Pod:
    """A Pod, as the API server has it."""

    ref: e.MemberRef
    node: str = ""
    job_id: int | None = None
    """As recorded with the Binding."""

    recorded: int | None = None
    """As recorded with the grant, or the Binding."""

    cancelled: Cancelled | None = None
    """As written on it."""

    deleting: bool = False
    end: e.PodEnd | None = None

    @property
    def live(self) -> bool:
        return self.end is None


@dataclass
class Late:
    """A request whose sender has given up on it or died; it is carried out by `until` at the latest."""

    command: c.Command | Binding
    until: float


@dataclass(frozen=True)
class Binding:
    """A Binding on its way to the API server."""

    ref: e.MemberRef
    node: str
    job_id: int


@dataclass
class Cluster:
    """Everything. `calls` are requests under way, `answers` what they brought, `watch` what the API server says."""

    pods: dict[str, Pod]
    now: float = 1000.0
    p: Placeholder | None = None
    request: JobRequest | None = REQUESTS[0]
    jobs: dict[int, Job] = field(default_factory=dict)
    next_id: int = 1
    calls: list[c.Command | Binding] = field(default_factory=list)
    answers: list[e.Event] = field(default_factory=list)
    watch: deque[e.Event] = field(default_factory=deque)
    late: list[Late] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)
    full: set[str] = field(default_factory=set)
    slurm_down: bool = False
    misses: dict[int, float] = field(default_factory=dict)
    foreign: bool = False
    given_up: set[int] = field(default_factory=set)
    """Jobs that slurmctld forgot, and jobs that the extender asked to be cancelled: Pods bound for them have to go."""

    # The extender.

    def begin(self) -> None:
        """Create the Pods, and notify the extender of them."""
        self.p = Placeholder("u")
        self.watch.append(self._wish())

    def notify(self, event: e.Event) -> None:
        """Take one step, check its invariants, and send its commands."""
        if self.p is None:
            return
        before = self.p
        self.p, commands = step(before, event, self.now, TIMING)
        validate(self.p)
        checked = needs_check(before, event, self.p)
        for command in commands:
            self._sound(command)
            match command:
                case c.Announce():
                    pass
                case _ if command not in self.calls:
                    self.calls.append(command)
        if checked:
            self.notify(self._check())

    def crash(self, arriving: Iterable[bool]) -> None:
        """End the process and start another; requests under way may still arrive."""
        for command, arrives in zip(self.calls, arriving, strict=False):
            if arrives:
                self.late.append(Late(command, self.now + TIMING.settle))
        self.calls, self.answers, self.misses = [], [], {}
        self.watch.clear()
        pods = [pod for pod in self.pods.values() if pod.live]
        if not pods:
            self.p = None  # an orphaned job is found by its mark, which is not the business of one workload
            for job in self.jobs.values():
                job.state = JobState.ENDED
            self.late = []
            return
        recorded = next((pod.recorded for pod in pods if pod.recorded and (pod.job_id or not pod.node)), None)
        members = [Member(pod.ref, node=pod.node, job_id=pod.job_id, ending=pod.deleting) for pod in pods]
        said_no = next((pod.cancelled for pod in pods if pod.cancelled), None)
        self.p = adopted(
            "u", members, title="team/train", job_id=recorded, now=self.now, timing=TIMING, cancelled=said_no
        )
        self.notify(self._wish())

    def _check(self) -> e.Event:
        assert self.p is not None
        given = {node for _, node in self.p.allocation}
        if taken := sorted(given & self.full):
            return e.AllocationMisfits(taken[0], "full")
        return e.AllocationBusy("busy") if given & self.busy else e.AllocationFits()

    def _sound(self, command: c.Command) -> None:
        """Check that no command rests on an unreported fact."""
        assert self.p is not None
        match command:
            case c.CancelJob(job_id):
                on_it = [m.ref.name for m in self.p.members if self.p.occupies_job(m) and m.job_id == job_id]
                assert not on_it, f"job {job_id} is cancelled under {on_it}"
                self.given_up.add(job_id)
            case c.EndPod(member):
                pod = self.pods[member.uid]
                assert pod.job_id is not None or not pod.node, f"{member.name} was bound by another client"
                job = self.jobs.get(pod.job_id or 0)
                reason = self.foreign or job is None or job.disturbed or job.job_id in self.given_up
                assert reason, f"{member.name} is ended although job {pod.job_id} runs undisturbed"

    # kube-scheduler.

    def schedule(self, uid: str, offered: frozenset[str]) -> None:
        """Offer a full list of nodes for one Pod, and perform the Binding that may follow."""
        if self.p is None or not (pod := self.pods[uid]).live or pod.node:
            return
        self.notify(e.CandidatesChanged(offered))
        verdict = filter_verdict(self.p, uid, offered)
        if isinstance(verdict, Wait):
            return
        assert isinstance(verdict, Place)
        assert verdict.node in offered
        assert self.p.state is State.BOUND or (self.p.state is State.GRANTED and self.p.cleared)
        assert self.p.job_id is not None
        if bind_refusal(self.p, uid, verdict.node):
            return
        binding = Binding(pod.ref, verdict.node, self.p.job_id)
        self.notify(e.BindStarted(uid, verdict.node))
        self.calls.append(binding)

    # What the clusters do with requests.

    def execute_request(self, command: c.Command | Binding, fault: Fault) -> None:
        """Execute one request with this fault; send its answer."""
        if fault is Fault.LATE:
            self.late.append(Late(command, self.now + TIMING.settle))
        if isinstance(command, Binding):
            self._execute_binding(command, fault)
            return
        if self.slurm_down and isinstance(
            command, c.SubmitJob | c.ProbeJob | c.ReadJob | c.FollowCandidates | c.UpdateJob
        ):
            fault = Fault.NEVER_ARRIVED
        done = self.execute(command) if fault in {Fault.NONE, Fault.ANSWER_LOST} else None
        self._answer(command, fault, done)

    def _execute_binding(self, binding: Binding, fault: Fault) -> None:
        # An unknown outcome is asked for until it is known: the Pod is read, which shows the Binding or its absence.
        if fault is Fault.LATE:
            self.late.pop()
        bound = fault is not Fault.NEVER_ARRIVED and self.bind(binding)
        answer = e.PodBound(binding.ref.uid, binding.node, binding.job_id)
        self.answers.append(answer if bound else e.BindFailed(binding.ref.uid, "409"))

    def _answer(self, command: c.Command, fault: Fault, done: e.Event | None) -> None:
        answered = fault is Fault.NONE
        match command:
            case c.SubmitJob(attempt=attempt):
                if fault is Fault.REFUSED:
                    self.answers.append(e.SubmitRefused(attempt, permanent=False, text="busy", queue=not command.queue))
                else:
                    self.answers.append(done if answered and done else e.SubmitUnknown(attempt, "lost"))
            case c.ProbeJob():
                self.answers.append(done if answered and done else e.ProbeFailed("down"))
            case c.CancelJob(job_id):
                self.answers.append(done if answered and done else e.CancelAnswered(job_id, job_ended=False))
            case c.FollowCandidates(job_id):
                self.answers.append(done if answered and done else e.FollowAnswered(job_id, None))
            case c.UpdateJob(job_id, request=request):
                self.answers.append(done if answered and done else e.UpdateAnswered(job_id, request, None))
            case c.WakePod(member):
                self.answers.append(e.WakeAnswered(member.uid, answered))
            case c.NoteCancelled(member):
                self.answers.append(e.CancelNoted(member.uid, answered))
            case c.EndPod(member):
                self.answers.append(e.EvictAnswered(member.uid, answered))
            case c.ReadJob(job_id):
                if answered:
                    self.read(job_id)

    def execute(self, command: c.Command | Binding) -> e.Event | None:
        """Execute the request now. Return its answer if it has one of its own."""
        match command:
            case Binding():
                self.bind(command)
            case c.SubmitJob(attempt=attempt):
                job = self.jobs[self.next_id] = Job(self.next_id, attempt)
                self.next_id += 1
                return e.SubmitAccepted(attempt, job.job_id, behind=command.queue)
            case c.ProbeJob():
                live = [job for job in self.jobs.values() if job.live]
                running = JobState.RUNNING
                return e.ProbeAnswered(tuple(e.JobFound(j.job_id, j.attempt, j.state is running) for j in live))
            case c.CancelJob(job_id):
                found = self.jobs.get(job_id)
                if found is None or not found.live:
                    return e.CancelAnswered(job_id, job_ended=True)
                self.end_job(found, e.EndKind.CANCELLED)
                return e.CancelAnswered(job_id, job_ended=False)
            case c.FollowCandidates(job_id):
                found = self.jobs.get(job_id)
                pending = found is not None and found.state is JobState.PENDING
                return e.FollowAnswered(job_id, () if pending else None)
            case c.UpdateJob(job_id, request=request):
                found = self.jobs.get(job_id)
                pending = found is not None and found.state is JobState.PENDING
                return e.UpdateAnswered(job_id, request, pending, "no longer pending")
            case c.WakePod(member, _, job_id):
                if (pod := self.pods[member.uid]).live and not pod.node:
                    pod.recorded = job_id
            case c.NoteCancelled(member, cancelled):
                self.pods[member.uid].cancelled = cancelled
            case c.EndPod(member):
                self.delete(self.pods[member.uid])
        return None

    # Kubernetes.

    def bind(self, binding: Binding) -> bool:
        """POST the Binding."""
        pod = self.pods[binding.ref.uid]
        if not pod.live or pod.deleting or pod.node:
            return pod.live and (pod.node, pod.job_id) == (binding.node, binding.job_id)
        pod.node, pod.job_id, pod.recorded = binding.node, binding.job_id, binding.job_id
        self.watch.append(e.PodBound(pod.ref.uid, pod.node, pod.job_id))
        return True

    def delete(self, pod: Pod) -> None:
        """Request a deletion; a Pod that runs nowhere is removed at once."""
        if not pod.live or pod.deleting:
            return
        pod.deleting = True
        self.watch.append(e.PodEnding(pod.ref.uid))
        if not pod.node:
            self.remove(pod)

    def remove(self, pod: Pod, how: e.PodEnd = e.PodEnd.REMOVED) -> None:
        """Remove a Pod: none of its containers runs any more."""
        pod.end = how
        self.watch.append(e.PodGone(pod.ref.uid, how))

    def edit(self, request: JobRequest | None) -> None:
        """Edit the Pod as its author; `None`: to an invalid value."""
        self.request = request
        if any(pod.live for pod in self.pods.values()):
            self.watch.append(self._wish())

    def _wish(self) -> e.Event:
        refs = tuple(pod.ref for pod in self.pods.values() if pod.live)
        return e.PodWanted(refs, self.request) if self.request else e.PodRefused(refs, ("wrong",))

    # Slurm.

    def end_job(self, job: Job, kind: e.EndKind) -> None:
        job.state, job.kind, job.disturbed = JobState.ENDED, kind, True

    def forget_job(self, job: Job) -> None:
        """Make slurmctld lose the job; it may assign its id to another one."""
        del self.jobs[job.job_id]
        self.given_up.add(job.job_id)
        self.next_id = min(self.next_id, job.job_id)

    def read(self, job_id: int) -> None:
        """Answer a read of this job; answers for one job arrive in the order of the reads."""
        job = self.jobs.get(job_id)
        if job is None:
            if self.misses.setdefault(job_id, self.now) < self.now:
                self._notified(e.JobEnded(job_id, e.EndKind.VANISHED, "unknown"))
            return
        self.misses.pop(job_id, None)
        match job.state:
            case JobState.PENDING:
                self._notified(e.JobWaiting(job_id, "Priority"))
            case JobState.RUNNING:
                self._notified(self._granted(job))
                if job.warned:
                    self.notify(e.JobEnding(job_id, e.EndKind.PREEMPTED))
            case JobState.SUSPENDED:
                self._notified(e.JobEnded(job_id, e.EndKind.SUSPENDED, alive=True))
            case JobState.REQUEUED:
                self._notified(e.JobEnded(job_id, e.EndKind.REQUEUED, alive=True))
            case JobState.ENDED:
                self._notified(e.JobEnded(job_id, job.kind, "ended"))

    def _notified(self, event: e.Event) -> None:
        self.notify(event)

    def _granted(self, job: Job) -> e.JobGranted:
        if job.node == UNMAPPED:
            return e.JobGranted(job.job_id, {}, (UNMAPPED,), unmapped=(UNMAPPED,))
        assert self.p is not None
        given = {member.ref.uid: job.node for member in self.p.members if not member.end}
        return e.JobGranted(job.job_id, given, (f"slurm-{job.node}",))

    def poll(self) -> None:
        """Read every job that the workload knows of."""
        if self.p is None or self.slurm_down:
            return
        for job_id in sorted({self.p.job_id, *self.p.duplicate_jobs} - {None}, key=lambda job_id: job_id or 0):
            if job_id is not None:
                self.read(job_id)

    # Time.

    def wait(self, seconds: float) -> None:
        """Time passes: timers fire when they are due, and late requests arrive in time."""
        until, fired = self.now + seconds, 0
        while True:
            fired += 1
            assert fired <= seconds + 100, f"a timer is always due: {self.p!r}"
            timer = self.p.timer_at if self.p is not None else None
            arrival = min((late.until for late in self.late), default=None)
            due = min((at for at in (timer, arrival) if at is not None), default=until)
            if due > until:
                break
            self.now = max(self.now, due)
            if arrival is not None and arrival <= self.now:
                self.arrive(min(range(len(self.late)), key=lambda index: self.late[index].until))
            elif timer is not None and timer <= self.now:
                self.timer()
            else:
                break
        self.now = until

    def timer(self) -> None:
        """Wake the placeholder, as the engine does; forget one that is over and has no open request."""
        assert self.p is not None
        if self.p.state is State.GONE and not self.p.duplicate_jobs and self.p.reprobe_at is None:
            self.p = None
            return
        self.notify(e.TimerFired())

    def arrive(self, index: int) -> None:
        """Execute a late request; its answer is lost."""
        self.execute(self.late.pop(index).command)

    # The end of all faults.

    def settle(self) -> None:
        """End all faults: everything arrives, every job is granted, and every Pod is scheduled."""
        self.slurm_down, self.busy, self.full = False, set(), set()
        if self.request is None:
            self.edit(REQUESTS[0])
        for _ in range(60):
            self.round()
            for pod in self.pods.values():
                if pod.deleting and pod.live:
                    self.remove(pod)
            self.wait(5.0)

    def round(self) -> None:
        """Deliver everything under way, grant the waiting jobs, and schedule the waiting Pods."""
        while self.calls or self.answers or self.watch:
            while self.calls:
                self.execute_request(self.calls.pop(0), Fault.NONE)
            while self.answers:
                self.notify(self.answers.pop(0))
            while self.watch:
                self.notify(self.watch.popleft())
        for job in self.jobs.values():
            if job.state is JobState.PENDING:
                job.state, job.node = JobState.RUNNING, NODES[job.job_id % len(NODES)]
        self.poll()
        for pod in self.pods.values():
            self.schedule(pod.ref.uid, frozenset(NODES))
