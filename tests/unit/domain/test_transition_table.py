"""Every word and reason that Slurm has does to a placeholder what the printed table says, in every live state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from docs.generate.slurm_states import canonical, waiting_for
from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.job_outcomes.pod_ends import ENDS
from extender.domain.job_outcomes.slurm_states import REASONS, STATES, Ended, Ending, Meaning, observe
from extender.domain.job_outcomes.transition_table import COLUMNS, TRANSITIONS, JobCondition, condition_of
from extender.domain.jobs.events import job_events
from extender.domain.jobs.job import JobView
from extender.domain.nodes.mapping import NodeMap
from extender.domain.placeholder import State
from tests.builders.placeholders import JOB, TIMING, Life, bound, cleared, waiting

START: dict[State, Callable[[], Life]] = {State.WAITING: waiting, State.GRANTED: cleared, State.BOUND: bound}
MAP = NodeMap({"slurm-n1": "n1"}, {"n1": "slurm-n1"}, known=True)

JOBS: dict[str, JobView] = {
    **{rule.word: canonical(rule) for rule in STATES},
    **{
        f"{rule.word}+COMPLETING": JobView(JOB, "x", rule.word, frozenset({"COMPLETING"}))
        for rule in STATES
        if rule.meaning is Meaning.ENDED or rule.word == "PENDING"
    },
    **{f"reason {rule.reason or 'none'}": waiting_for(rule) for rule in REASONS},
    "a reason of tomorrow": JobView(JOB, "x", "PENDING", reason="ReasonOfTomorrow"),
    "a state of tomorrow": JobView(JOB, "x", "STATE_OF_TOMORROW"),
    "a flag of tomorrow": JobView(JOB, "x", "RUNNING", frozenset({"FLAG_OF_TOMORROW"})),
    "no state": JobView(JOB, "x", ""),
    "running in its Prolog": JobView(JOB, "x", "RUNNING", reason="Prolog"),
    "to be preempted": JobView(JOB, "x", "RUNNING", preempt_time=1.8e9, end_time=1.8e9 + 60),
    "runs again": JobView(JOB, "x", "RUNNING", restart_count=1),
    "waits again": JobView(JOB, "x", "PENDING", restart_count=1),
    "failed as impossible": JobView(JOB, "x", "FAILED", reason="BadConstraints"),
}


UNKNOWN = e.JobEnded(JOB, e.EndKind.VANISHED, f"Slurm does not know job {JOB} any more.")
"""Of a job that no answer shows, there is nothing to observe."""


def test_every_condition_of_the_table_can_be_met() -> None:
    assert {condition_of(observe(job)) for job in JOBS.values()} == set(JobCondition) - {JobCondition.UNKNOWN}
    assert all(set(TRANSITIONS[condition]) == set(COLUMNS) for condition in JobCondition)


@pytest.mark.parametrize("state", COLUMNS)
@pytest.mark.parametrize("said", JOBS)
def test_the_machine_does_what_the_table_says(said: str, state: State) -> None:
    on_nodes = () if JOBS[said].state == "PENDING" else ("slurm-n1",)
    job = replace(JOBS[said], job_id=JOB, nodes=on_nodes)
    seen = observe(job)
    transition = TRANSITIONS[condition_of(seen)][state]
    life = START[state]()
    life.notify(*job_events(life.p, job, MAP))
    reasons, ends = life.reasons(), life.commands_of(c.EndPod)
    if transition.doubted:
        assert life.state is state
        life.later(TIMING.doubt).notify(*job_events(life.p, job, MAP))
    assert life.state is transition.state
    assert (transition.event in reasons) if transition.event else reasons == []
    assert bool(ends) is (transition.state is State.LOST)
    if ends and isinstance(seen, Ended | Ending):
        rule = ENDS[ends[0].kind]
        assert ends[0].kind is seen.kind or condition_of(seen) is JobCondition.IMPOSSIBLE
        assert ends[0].voluntary is rule.voluntary


@pytest.mark.parametrize("state", COLUMNS)
def test_a_job_that_slurm_does_not_know_any_more_comes_to_what_the_table_says(state: State) -> None:
    transition = TRANSITIONS[JobCondition.UNKNOWN][state]
    life = START[state]().notify(UNKNOWN)
    ends = life.commands_of(c.EndPod)
    assert life.state is transition.state
    assert transition.event in life.reasons()
    assert bool(ends) is (transition.state is State.LOST)
    assert [(end.kind, end.voluntary) for end in ends] == [(e.EndKind.VANISHED, False)] * len(ends)
    assert not life.commands_of(c.CancelJob)
