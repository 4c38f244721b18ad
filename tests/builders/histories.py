"""Random events of a workload between a Slurm and a Kubernetes that fail, forget, and are operated by users."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from extender.domain import events as e
from extender.domain.placeholder import State
from tests.builders.cluster_model import NODES, REQUESTS, UNMAPPED, Cluster, Fault, Job, JobState, Pod

UIDS = ("a", "b")
PICK = st.integers(0, 7)
RARELY = st.sampled_from((False, False, False, True))
"""For what ends a workload: most are to live long."""

CALM = st.sampled_from((0, 0, 1, 3))
"""Rounds of undisturbed progress before something happens, so that it happens in every state."""


class Histories(RuleBasedStateMachine):
    """Apply random events as rules; the model and the invariants check the outcome."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster({})

    @initialize(pods=st.integers(1, 2))
    def begin(self, pods: int) -> None:
        self.cluster = Cluster({uid: Pod(e.MemberRef(uid, "team", uid)) for uid in UIDS[:pods]})
        self.cluster.begin()

    def pod(self, pick: int) -> Pod:
        return self.cluster.pods[UIDS[pick % len(self.cluster.pods)]]

    def job(self, pick: int, *states: JobState) -> Job | None:
        found = [job for job in self.cluster.jobs.values() if job.state in states]
        return found[pick % len(found)] if found else None

    def all_is_calm(self, rounds: int) -> None:
        for _ in range(rounds):
            self.cluster.round()

    # Messages.

    @precondition(lambda self: self.cluster.watch)
    @rule(twice=st.booleans())
    def the_watch_brings_news(self, twice: bool) -> None:
        event = self.cluster.watch.popleft()
        self.cluster.notify(event)
        if twice:
            self.cluster.notify(event)

    @precondition(lambda self: self.cluster.calls)
    @rule(pick=PICK, fault=st.sampled_from(Fault))
    def a_request_meets_its_fate(self, pick: int, fault: Fault) -> None:
        calls = self.cluster.calls
        self.cluster.execute_request(calls.pop(pick % len(calls)), fault)

    @precondition(lambda self: self.cluster.calls)
    @rule(pick=PICK)
    def a_request_succeeds(self, pick: int) -> None:
        calls = self.cluster.calls
        self.cluster.execute_request(calls.pop(pick % len(calls)), Fault.NONE)

    @precondition(lambda self: self.cluster.answers)
    @rule(pick=PICK, twice=st.booleans())
    def an_answer_arrives(self, pick: int, twice: bool) -> None:
        answers = self.cluster.answers
        event = answers[pick % len(answers)]
        answers.remove(event)
        self.cluster.notify(event)
        if twice:
            self.cluster.notify(event)

    @precondition(lambda self: self.cluster.late)
    @rule(pick=PICK)
    def a_late_request_is_executed(self, pick: int) -> None:
        self.cluster.arrive(pick % len(self.cluster.late))

    @rule()
    def jobs_are_polled(self) -> None:
        self.cluster.poll()

    @rule(seconds=st.sampled_from((0.5, 3.0, 70.0)))
    def time_passes(self, seconds: float) -> None:
        self.cluster.wait(seconds)

    @rule(rounds=CALM)
    def all_goes_well(self, rounds: int) -> None:
        self.all_is_calm(rounds)

    # Kubernetes.

    @rule(pick=PICK, offered=st.sets(st.sampled_from(NODES), min_size=1))
    def kube_scheduler_offers_nodes(self, pick: int, offered: set[str]) -> None:
        self.cluster.schedule(self.pod(pick).ref.uid, frozenset(offered))

    @rule(pick=PICK, really=RARELY, calm=CALM)
    def a_pod_is_deleted(self, pick: int, really: bool, calm: int) -> None:
        self.all_is_calm(calm)
        if really:
            self.cluster.delete(self.pod(pick))

    @rule(pick=PICK)
    def kubelet_has_ended_a_pod(self, pick: int) -> None:
        pod = self.pod(pick)
        if pod.live and pod.deleting:
            self.cluster.remove(pod)

    @rule(pick=PICK, how=st.sampled_from((e.PodEnd.SUCCEEDED, e.PodEnd.FAILED)), really=RARELY, calm=CALM)
    def a_pod_finishes(self, pick: int, how: e.PodEnd, really: bool, calm: int) -> None:
        self.all_is_calm(calm)
        pod = self.pod(pick)
        if really and pod.live and pod.node:
            self.cluster.remove(pod, how)

    @rule(pick=PICK, really=RARELY, calm=CALM)
    def another_client_binds_a_pod(self, pick: int, really: bool, calm: int) -> None:
        self.all_is_calm(calm)
        pod = self.pod(pick)
        if really and pod.live and not pod.deleting and not pod.node:
            pod.node = "n9"
            self.cluster.foreign = True
            self.cluster.watch.append(e.PodBound(pod.ref.uid, "n9", None))

    @rule(request=st.sampled_from((*REQUESTS, None)), calm=CALM)
    def settings_are_edited(self, request: object, calm: int) -> None:
        self.all_is_calm(calm)
        self.cluster.edit(next((known for known in REQUESTS if known is request), None))

    @rule(node=st.sampled_from(NODES), what=st.sampled_from(("busy", "full", "free")), calm=CALM)
    def a_node_fills_or_empties(self, node: str, what: str, calm: int) -> None:
        self.all_is_calm(calm)
        self.cluster.busy.discard(node)
        self.cluster.full.discard(node)
        if what != "free":
            getattr(self.cluster, what).add(node)

    # Slurm.

    @rule(pick=PICK, node=st.sampled_from((*NODES, *NODES, UNMAPPED)))
    def slurm_starts_a_job(self, pick: int, node: str) -> None:
        if job := self.job(pick, JobState.PENDING):
            job.state, job.node = JobState.RUNNING, node

    @rule(
        pick=PICK, kind=st.sampled_from((e.EndKind.PREEMPTED, e.EndKind.NODE_FAILURE, e.EndKind.CANCELLED)), calm=CALM
    )
    def a_job_ends(self, pick: int, kind: e.EndKind, calm: int) -> None:
        self.all_is_calm(calm)
        if (job := self.job(pick, *JobState)) and job.live:
            self.cluster.end_job(job, kind)

    @rule(pick=PICK, to=st.sampled_from((JobState.SUSPENDED, JobState.REQUEUED)), calm=CALM)
    def a_running_job_loses_its_node(self, pick: int, to: JobState, calm: int) -> None:
        self.all_is_calm(calm)
        if job := self.job(pick, JobState.RUNNING):
            job.state, job.disturbed = to, True

    @rule(pick=PICK, calm=CALM)
    def a_preemption_is_announced(self, pick: int, calm: int) -> None:
        self.all_is_calm(calm)
        if job := self.job(pick, JobState.RUNNING):
            job.warned = job.disturbed = True

    @rule(pick=PICK, really=RARELY, calm=CALM)
    def slurm_forgets_a_job(self, pick: int, really: bool, calm: int) -> None:
        self.all_is_calm(calm)
        if (job := self.job(pick, *JobState)) and really:
            self.cluster.forget_job(job)

    @rule(down=st.booleans(), calm=CALM)
    def slurm_goes_or_comes(self, down: bool, calm: int) -> None:
        self.all_is_calm(calm)
        self.cluster.slurm_down = down

    # The extender.

    @rule(arrives=st.lists(st.booleans(), min_size=4, max_size=4), calm=CALM)
    def the_extender_crashes(self, arrives: list[bool], calm: int) -> None:
        self.all_is_calm(calm)
        self.cluster.crash(arrives)

    @precondition(lambda self: not any(pod.live for pod in self.cluster.pods.values()))
    @rule(pods=st.integers(1, 2))
    def another_workload_begins(self, pods: int) -> None:
        self.teardown()
        self.begin(pods)

    # What must hold.

    @invariant()
    def pods_run_for_one_job_at_a_time(self) -> None:
        jobs = {pod.job_id for pod in self.cluster.pods.values() if pod.live and pod.job_id is not None}
        assert len(jobs) <= 1, jobs

    def teardown(self) -> None:
        """Check that jobs live exactly as long as Pods do once faults stop."""
        cluster = self.cluster
        if not cluster.pods:
            return
        cluster.settle()
        pods = [pod for pod in cluster.pods.values() if pod.live]
        live = {job.job_id for job in cluster.jobs.values() if job.live}
        p = cluster.p
        story = f"{p!r}\npods {pods}\njobs {cluster.jobs}"
        if not pods:
            assert p is None, f"never forgotten: {story}"
            assert not live, f"jobs without a Pod: {story}"
            return
        assert p is not None, f"forgotten too early: {story}"
        assert not p.duplicate_jobs, f"duplicate jobs: {story}"
        if p.state is State.REFUSED:
            assert not live, f"refused with a job: {story}"
            return
        assert p.state is State.BOUND, f"not at rest: {story}"
        assert live == {p.job_id}, f"not one job: {story}"
        job = cluster.jobs[p.job_id or 0]
        assert {pod.node for pod in pods} == {job.node}, f"elsewhere: {story}"


def happen(world: Histories, rng: random.Random) -> str:
    """Let one thing happen, progress more often than faults, and say what it was."""
    name = rng.choices(list(ODDS), weights=list(ODDS.values()))[0]
    if name in NEEDS and not NEEDS[name](world):
        return f"no {name}"
    draws = {
        "pick": rng.randrange(8),
        "pods": rng.choice((1, 1, 2)),
        "twice": rng.random() < 0.2,
        "fault": rng.choice(list(Fault)),
        "seconds": rng.choice((0.5, 0.5, 3.0, 70.0)),
        "rounds": rng.choice((1, 1, 2, 3)),
        "offered": set(rng.sample(NODES, rng.choice((1, 2, 3, 3)))),
        "how": rng.choice((e.PodEnd.SUCCEEDED, e.PodEnd.FAILED)),
        "request": rng.choice((*REQUESTS, None)),
        "node": rng.choice((*NODES, *NODES, UNMAPPED) if name == "slurm_starts_a_job" else NODES),
        "what": rng.choice(("busy", "full", "free", "free")),
        "kind": rng.choice((e.EndKind.CANCELLED, e.EndKind.PREEMPTED, e.EndKind.NODE_FAILURE)),
        "to": rng.choice((JobState.SUSPENDED, JobState.REQUEUED)),
        "down": rng.random() < 0.3,
        "arrives": [rng.random() < 0.5 for _ in range(4)],
        "really": True,
        "calm": 0,
    }
    method = getattr(world, name)
    wanted = inspect.signature(method).parameters
    chosen = {key: value for key, value in draws.items() if key in wanted}
    method(**chosen)
    return f"{name} {chosen}"


ODDS = {
    "the_watch_brings_news": 12,
    "a_request_succeeds": 14,
    "a_request_meets_its_fate": 9,
    "an_answer_arrives": 16,
    "jobs_are_polled": 12,
    "slurm_starts_a_job": 8,
    "kube_scheduler_offers_nodes": 14,
    "time_passes": 8,
    "all_goes_well": 2,
    "a_late_request_is_executed": 2,
    "another_workload_begins": 6,
    "a_pod_is_deleted": 2,
    "kubelet_has_ended_a_pod": 4,
    "a_pod_finishes": 2,
    "another_client_binds_a_pod": 0.3,
    "settings_are_edited": 2,
    "a_node_fills_or_empties": 2,
    "a_job_ends": 1,
    "a_running_job_loses_its_node": 0.7,
    "a_preemption_is_announced": 0.5,
    "slurm_forgets_a_job": 0.5,
    "slurm_goes_or_comes": 1,
    "the_extender_crashes": 2.5,
}
NEEDS: dict[str, Callable[[Histories], bool]] = {
    "the_watch_brings_news": lambda world: bool(world.cluster.watch),
    "a_request_succeeds": lambda world: bool(world.cluster.calls),
    "a_request_meets_its_fate": lambda world: bool(world.cluster.calls),
    "an_answer_arrives": lambda world: bool(world.cluster.answers),
    "a_late_request_is_executed": lambda world: bool(world.cluster.late),
    "another_workload_begins": lambda world: not any(pod.live for pod in world.cluster.pods.values()),
}
