"""Evidence of a fence comes with a call, goes with a call that does not come, expires, and cannot be invented."""

from __future__ import annotations

import pytest

from extender.domain.jobs.identity import hook_token
from extender.domain.jobs.job import Mark
from extender.domain.nodes.fence_evidence import (
    MOST_AWAITED,
    MOST_EARLY,
    NO_FENCE,
    FencedNodes,
    FenceLedger,
    FenceProofs,
    FenceScript,
)
from extender.domain.pods.allocation_record import AllocationRecords

EPILOG, PROLOG = FenceScript.EPILOG, FenceScript.PROLOG_SLURMCTLD
DAY, WITHIN = 86_400.0, 90.0
KEY = b"a key of the hooks"
PROOFS = FenceProofs([KEY], "cluster", "slurm")
WRITTEN = PROOFS.written("uid-1", "n1", {EPILOG: 1_000.9})


@pytest.fixture
def ledger() -> FenceLedger:
    return FenceLedger(DAY, WITHIN)


def test_nothing_is_fenced_before_a_call(ledger: FenceLedger) -> None:
    assert ledger.fenced(0.0) == NO_FENCE


def test_a_call_is_evidence_for_its_node_until_it_expires(ledger: FenceLedger) -> None:
    ledger.call(EPILOG, "n1", 7, 10.0)
    assert ledger.fenced(10.0).epilog == {"n1"}
    assert ledger.fenced(10.0 + DAY - 1).epilog == {"n1"}
    assert ledger.fenced(10.0 + DAY).epilog == frozenset()


def test_the_last_call_of_each_script_is_kept_for_each_node(ledger: FenceLedger) -> None:
    ledger.call(EPILOG, "n1", 7, 10.0)
    ledger.call(PROLOG, "n2", 7, 20.0)
    assert ledger.last_calls("n1") == {EPILOG: 10.0}
    assert ledger.last_calls("n2") == {PROLOG: 20.0}
    assert ledger.last_calls("n3") == {}


def test_a_later_call_renews_the_evidence(ledger: FenceLedger) -> None:
    ledger.call(EPILOG, "n1", 7, 0.0)
    ledger.call(EPILOG, "n1", 8, DAY / 2)
    assert ledger.fenced(DAY * 1.4).epilog == {"n1"}


def test_an_end_whose_call_does_not_come_removes_the_evidence(ledger: FenceLedger) -> None:
    ledger.call(EPILOG, "n1", 7, 0.0)
    ledger.end(7, ["n1"], [EPILOG], 1.0)
    ledger.end(8, ["n1"], [EPILOG], 100.0)
    assert ledger.fenced(100.0 + WITHIN - 1).epilog == {"n1"}
    assert ledger.fenced(100.0 + WITHIN).epilog == frozenset()


@pytest.mark.parametrize("call_first", [True, False])
def test_a_call_before_or_after_the_end_is_seen_keeps_the_evidence(ledger: FenceLedger, call_first: bool) -> None:
    if call_first:
        ledger.call(EPILOG, "n1", 7, 10.0)
        ledger.end(7, ["n1"], [EPILOG], 40.0)
    else:
        ledger.end(7, ["n1"], [EPILOG], 10.0)
        ledger.call(EPILOG, "n1", 7, 40.0)
    assert ledger.fenced(40.0 + 10 * WITHIN).epilog == {"n1"}


def test_each_node_of_a_job_has_to_call_by_itself(ledger: FenceLedger) -> None:
    for node in ("n1", "n2"):
        ledger.call(EPILOG, node, 7, 0.0)
    ledger.call(EPILOG, "n1", 8, 10.0)
    ledger.end(8, ["n1", "n2"], [EPILOG], 11.0)
    assert ledger.fenced(11.0 + WITHIN).epilog == {"n1"}


def test_a_call_of_one_script_says_nothing_of_the_other(ledger: FenceLedger) -> None:
    ledger.call(EPILOG, "n1", 7, 0.0)
    ledger.call(PROLOG, "n1", 7, 0.0)
    ledger.call(EPILOG, "n1", 8, 1.0)
    ledger.end(8, ["n1"], [EPILOG, PROLOG], 1.0)
    found = ledger.fenced(1.0 + WITHIN)
    assert found == FencedNodes(epilog=frozenset({"n1"}))


def test_what_is_known_is_the_same_object_while_nothing_changes(ledger: FenceLedger) -> None:
    ledger.call(EPILOG, "n1", 7, 0.0)
    before = ledger.fenced(0.0)
    ledger.call(EPILOG, "n1", 8, 5.0)
    assert ledger.fenced(5.0) is before


def test_evidence_of_a_process_before_keeps_its_age(ledger: FenceLedger) -> None:
    ledger.adopt("n1", EPILOG, DAY - 10, 0.0)
    assert ledger.fenced(9.0).epilog == {"n1"}
    assert ledger.fenced(10.0).epilog == frozenset()


def test_evidence_of_a_process_before_does_not_replace_a_later_call(ledger: FenceLedger) -> None:
    ledger.call(EPILOG, "n1", 7, 0.0)
    ledger.adopt("n1", EPILOG, DAY - 10, 1.0)
    assert ledger.fenced(DAY / 2).epilog == {"n1"}


def test_a_slurm_node_that_is_gone_is_forgotten(ledger: FenceLedger) -> None:
    ledger.call(EPILOG, "n1", 7, 0.0)
    ledger.drop("n1")
    assert ledger.fenced(0.0) == NO_FENCE
    assert ledger.nodes() == frozenset()


def test_what_is_kept_is_bounded_however_many_jobs_end_and_scripts_call(ledger: FenceLedger) -> None:
    for job in range(MOST_AWAITED + 10):
        ledger.end(job, ["n1"], [EPILOG], 0.0)
    for job in range(MOST_EARLY + 10):
        ledger.call(EPILOG, "n2", MOST_AWAITED * 2 + job, 0.0)
    assert len(ledger._awaited) == MOST_AWAITED
    assert len(ledger._early) == MOST_EARLY


def test_ends_beyond_the_bound_remove_the_evidence(ledger: FenceLedger) -> None:
    ledger.call(EPILOG, "n2", 1_000_000, 0.0)
    for job in range(MOST_AWAITED):
        ledger.end(job, ["n1"], [EPILOG], 0.0)
    ledger.end(MOST_AWAITED, ["n2"], [EPILOG], 0.0)
    assert ledger.fenced(0.0).epilog == frozenset()


def test_what_was_written_is_read_on_the_same_node() -> None:
    assert PROOFS.read(WRITTEN, "uid-1", "n1") == {EPILOG: 1_000}
    both = PROOFS.written("uid-1", "n1", {EPILOG: 5.0, PROLOG: 6.0})
    assert PROOFS.read(both, "uid-1", "n1") == {EPILOG: 5, PROLOG: 6}


def test_a_replaced_key_still_verifies_what_it_signed() -> None:
    assert FenceProofs([b"a newer key", KEY], "cluster", "slurm").read(WRITTEN, "uid-1", "n1") == {EPILOG: 1_000}


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "slurm: v1",
        "slurm: v1.1000.0.",
        "slurm: v1.99999999.0." + "0" * 64,
        WRITTEN.replace("v1.1000.", "v1.9000."),
        WRITTEN.replace("v1.1000.0.", "v1.1000.1000."),
        WRITTEN.replace("slurm: ", ""),
        WRITTEN.replace("slurm: ", "other: "),
        WRITTEN[:-1],
        WRITTEN + "0",
        WRITTEN.replace("v1", "v2"),
        "slurm: v1.\u0661.0." + "0" * 64,
        "slurm: v1.-1.0." + "0" * 64,
        "slurm: v1." + "." * 100,
        "1" * 262_144,
        "slurm: v1.1000.0.\ud800",
    ],
)
def test_what_the_extender_did_not_write_is_no_evidence(forged: str) -> None:
    assert PROOFS.read(forged, "uid-1", "n1") == {}


@pytest.mark.parametrize(("uid", "node"), [("uid-2", "n1"), ("uid-1", "n2"), ("u" * 300, "n1"), ("uid-1", "n" * 300)])
def test_evidence_of_another_node_is_none(uid: str, node: str) -> None:
    assert PROOFS.read(WRITTEN, uid, node) == {}


def test_evidence_of_another_cluster_or_key_is_none() -> None:
    assert FenceProofs([KEY], "another", "slurm").read(WRITTEN, "uid-1", "n1") == {}
    assert FenceProofs([b"another key"], "cluster", "slurm").read(WRITTEN, "uid-1", "n1") == {}


def test_neither_a_token_nor_an_allocation_record_verifies_as_evidence() -> None:
    token = hook_token(KEY, Mark("cluster", "slurm", "uid-1", 1))
    annotations = AllocationRecords([KEY], "cluster").written(1_000, "n1", "uid-1", "n1")
    for text in (token, *annotations.values()):
        assert PROOFS.read(text, "uid-1", "n1") == {}
        assert PROOFS.read(f"slurm: v1.1000.0.{text}", "uid-1", "n1") == {}


@pytest.mark.parametrize(("text", "foreign"), [("", False), (WRITTEN, False), ("other: v1.1.1.00", True), ("x", True)])
def test_evidence_of_another_extender_is_distinguished_from_that_of_this_one(text: str, foreign: bool) -> None:
    assert PROOFS.is_foreign(text) is foreign


def test_evidence_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a key"):
        FenceProofs([], "cluster", "slurm")
