"""Every word of Slurm has one meaning, and a word that nobody knows has none."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.generate.slurm_states import redrawn
from extender.domain.events import EndKind
from extender.domain.job_outcomes.slurm_states import (
    REASONS,
    STATES,
    Ended,
    Ending,
    Meaning,
    Observation,
    PolledState,
    ReasonClass,
    Running,
    Starting,
    Unclear,
    Waiting,
    observe,
    polled_state,
    reason_rule,
)
from extender.domain.jobs.job import JobView

# The enumeration that slurmrestd's own description gives for `job_state` from v0.0.40 to v0.0.45.
SLURM_WORDS = frozenset(
    {
        "PENDING",
        "RUNNING",
        "SUSPENDED",
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "LAUNCH_FAILED",
        "REQUEUED",
        "REQUEUE_HOLD",
        "SPECIAL_EXIT",
        "RESIZING",
        "CONFIGURING",
        "COMPLETING",
        "STOPPED",
        "RECONFIG_FAIL",
        "POWER_UP_NODE",
        "REVOKED",
        "REQUEUE_FED",
        "RESV_DEL_HOLD",
        "SIGNALING",
        "STAGE_OUT",
        "EXPEDITING",
    }
)


def a_job(
    *words: str,
    reason: str = "None",
    preempt_time: float = 0.0,
    end_time: float = 0.0,
    as_of: float = 0.0,
    restart_count: int = 0,
) -> JobView:
    return JobView(
        job_id=7,
        name="team/pod",
        state=words[0],
        flags=frozenset(words[1:]),
        reason=reason,
        preempt_time=preempt_time,
        as_of=as_of,
        end_time=end_time,
        restart_count=restart_count,
    )


def test_every_state_word_of_slurm_is_in_the_table_once() -> None:
    words = [rule.word for rule in STATES]
    assert sorted(words) == sorted(SLURM_WORDS)


def test_every_end_names_its_kind_and_no_other_rule_does() -> None:
    for rule in STATES:
        assert (rule.kind is not None) == (rule.meaning in {Meaning.ENDED, Meaning.TAKEN}), rule.word


def test_no_reason_is_listed_twice() -> None:
    reasons = [rule.reason for rule in REASONS]
    assert len(reasons) == len(set(reasons))


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("COMPLETED",), EndKind.FAILED),
        (("CANCELLED",), EndKind.CANCELLED),
        (("CANCELLED", "COMPLETING"), EndKind.CANCELLED),
        (("TIMEOUT", "COMPLETING"), EndKind.TIME_LIMIT),
        (("DEADLINE",), EndKind.TIME_LIMIT),
        (("PREEMPTED", "COMPLETING"), EndKind.PREEMPTED),
        (("NODE_FAIL",), EndKind.NODE_FAILURE),
        (("BOOT_FAIL",), EndKind.NODE_FAILURE),
        (("OUT_OF_MEMORY",), EndKind.FAILED),
        (("FAILED", "LAUNCH_FAILED"), EndKind.FAILED),
        (("COMPLETED", "STAGE_OUT"), EndKind.FAILED),
    ],
)
def test_a_job_that_has_ended_has_ended_for_good(words: tuple[str, ...], kind: EndKind) -> None:
    seen = observe(a_job(*words))
    assert isinstance(seen, Ended)
    assert (seen.kind, seen.alive) == (kind, False)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("SUSPENDED",), EndKind.SUSPENDED),
        (("PENDING", "COMPLETING"), EndKind.REQUEUED),
        (("PENDING", "REQUEUED"), EndKind.REQUEUED),
        (("PENDING", "REQUEUE_HOLD"), EndKind.REQUEUED),
        (("PENDING", "SPECIAL_EXIT"), EndKind.REQUEUED),
        (("PENDING", "REQUEUE_FED"), EndKind.REQUEUED),
        (("PREEMPTED", "REQUEUED", "COMPLETING"), EndKind.PREEMPTED),
        (("PENDING", "REVOKED"), EndKind.REVOKED),
    ],
)
def test_a_job_whose_nodes_were_taken_but_may_run_again_is_ended_and_alive(
    words: tuple[str, ...], kind: EndKind
) -> None:
    seen = observe(a_job(*words))
    assert isinstance(seen, Ended)
    assert (seen.kind, seen.alive) == (kind, True)


@pytest.mark.parametrize("words", [("PENDING",), ("PENDING", "EXPEDITING"), ("RUNNING",), ("RUNNING", "CONFIGURING")])
def test_a_job_that_was_requeued_unseen_is_known_by_its_restart_count(words: tuple[str, ...]) -> None:
    seen = observe(a_job(*words, restart_count=1))
    assert isinstance(seen, Ended)
    assert (seen.kind, seen.alive) == (EndKind.REQUEUED, True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("RUNNING", "CONFIGURING"), "None"),
        (("RUNNING", "CONFIGURING", "POWER_UP_NODE"), "None"),
        (("RUNNING",), "Prolog"),
    ],
)
def test_nodes_that_boot_or_run_a_prolog_are_not_a_place_for_a_pod(words: tuple[str, ...], reason: str) -> None:
    assert isinstance(observe(a_job(*words, reason=reason)), Starting)


@pytest.mark.parametrize("flag", ["SIGNALING", "STOPPED", "RESIZING"])
def test_a_running_job_keeps_its_nodes_whatever_else_happens_to_its_processes(flag: str) -> None:
    assert observe(a_job("RUNNING", flag, as_of=100.0, end_time=500.0)) == Running(ends_in=400.0)


@pytest.mark.parametrize(("as_of", "left"), [(110.0, 30.0), (0.0, 40.0)])
def test_an_announced_preemption_is_an_ending_with_what_is_left_by_slurms_clock(as_of: float, left: float) -> None:
    seen = observe(a_job("RUNNING", as_of=as_of, preempt_time=100.0, end_time=140.0))
    assert seen == Ending(EndKind.PREEMPTED, left, "Slurm job 7 will be preempted.")


def test_a_preemption_of_a_job_without_end_time_says_not_when() -> None:
    seen = observe(a_job("RUNNING", as_of=110.0, preempt_time=100.0))
    assert isinstance(seen, Ending)
    assert seen.ends_in is None


@pytest.mark.parametrize(
    ("reason", "means"),
    [
        ("Resources", ReasonClass.QUEUED),
        ("Priority", ReasonClass.QUEUED),
        ("ReqNodeNotAvail, UnavailableNodes:node-[1-3]", ReasonClass.UNAVAILABLE),
        ("PartitionNodeLimit", ReasonClass.UNAVAILABLE),
        ("AssocGrpGRESRunMinutes", ReasonClass.LIMIT),
        ("QOSMaxJobsPerUserLimit", ReasonClass.LIMIT),
        ("QOSMinGRES", ReasonClass.LIMIT),
        ("MaxGRESRunMinsPerAccount", ReasonClass.LIMIT),
        ("MaxMemPerLimit", ReasonClass.LIMIT),
        ("MaxPoweredUpNodes", ReasonClass.QUEUED),
        ("JobHeldUser", ReasonClass.HELD),
        ("BadConstraints", ReasonClass.IMPOSSIBLE),
        ("QOSNotAllowed", ReasonClass.IMPOSSIBLE),
        ("TaxesUnpaid", ReasonClass.UNKNOWN),
    ],
)
def test_a_reason_belongs_to_its_class(reason: str, means: ReasonClass) -> None:
    assert reason_rule(reason).means is means


def test_a_waiting_job_says_why_in_words_and_in_slurms_own_word() -> None:
    seen = observe(a_job("PENDING", reason="Resources"))
    assert seen == Waiting("Resources", "It is next, and waits for free resources (Resources).")


def test_a_held_job_waits_and_says_that_it_must_be_released() -> None:
    assert observe(a_job("PENDING", reason="JobHeldAdmin")) == Waiting(
        "JobHeldAdmin", "An administrator, or Slurm after a failed start, holds it (JobHeldAdmin).", held=True
    )
    by_flag = observe(a_job("PENDING", "RESV_DEL_HOLD"))
    assert isinstance(by_flag, Waiting)
    assert by_flag.held


def test_a_job_that_can_never_run_is_said_to_be_impossible_while_it_waits_and_once_it_failed() -> None:
    waiting = observe(a_job("PENDING", reason="BadConstraints"))
    assert isinstance(waiting, Waiting)
    assert waiting.impossible
    failed = observe(a_job("FAILED", reason="BadConstraints"))
    assert isinstance(failed, Ended)
    assert failed.kind is EndKind.IMPOSSIBLE
    assert "BadConstraints" in failed.text


def test_an_unknown_reason_lets_a_job_wait_and_is_named() -> None:
    seen = observe(a_job("PENDING", reason="TaxesUnpaid"))
    assert isinstance(seen, Waiting)
    assert (seen.impossible, seen.held) == (False, False)
    assert "TaxesUnpaid" in seen.text


@pytest.mark.parametrize("words", [("HIBERNATING",), ("RUNNING", "HIBERNATING"), ("COMPLETING",), ("",)])
def test_unknown_words_prove_nothing(words: tuple[str, ...]) -> None:
    assert isinstance(observe(a_job(*words)), Unclear)
    assert polled_state(frozenset(words)) is PolledState.UNKNOWN


def test_an_unknown_flag_does_not_hide_that_a_job_has_ended() -> None:
    assert polled_state(frozenset({"CANCELLED", "HIBERNATING"})) is PolledState.ENDED


def test_no_words_at_all_prove_nothing() -> None:
    assert polled_state(frozenset()) is PolledState.UNKNOWN


_JOBS = st.builds(
    a_job,
    st.sampled_from([*sorted(SLURM_WORDS), "HIBERNATING"]),
    st.sampled_from([*sorted(SLURM_WORDS), "HIBERNATING"]),
    reason=st.sampled_from([*(rule.reason for rule in REASONS), "TaxesUnpaid"]),
    preempt_time=st.sampled_from([0.0, 50.0]),
    end_time=st.sampled_from([0.0, 90.0]),
    restart_count=st.integers(0, 1),
)
_AGREES: dict[type[Observation], frozenset[PolledState]] = {
    Waiting: frozenset({PolledState.WAITING}),
    Starting: frozenset({PolledState.STARTING, PolledState.RUNNING}),
    Running: frozenset({PolledState.RUNNING}),
    Ending: frozenset({PolledState.RUNNING}),
    Ended: frozenset(
        {PolledState.ENDED, PolledState.TAKEN, PolledState.WAITING, PolledState.STARTING, PolledState.RUNNING}
    ),
    Unclear: frozenset({PolledState.UNKNOWN}),
}


@given(_JOBS)
def test_the_state_words_alone_never_contradict_the_whole_job(job: JobView) -> None:
    words = job.flags | {job.state}
    seen = polled_state(words)
    whole = observe(job)
    assert seen in _AGREES[type(whole)]
    if isinstance(whole, Ended) and not whole.alive:
        assert seen is PolledState.ENDED
    if isinstance(whole, Ended):
        assert any(r.kind is not None and r.word in words for r in STATES) or "PENDING" in words or job.restart_count


def test_the_page_of_states_is_what_the_tables_say() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "states.md").read_text(encoding="utf-8")
    assert redrawn(page) == page, "docs/reference/states.md is stale: python -m docs.generate.slurm_states"
