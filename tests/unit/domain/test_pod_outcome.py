"""How a Pod ended, as its job is told."""

from __future__ import annotations

import pytest

from extender.domain.pods.outcome import LONGEST_COMMENT, outcome_of, with_note
from extender.domain.views import Container, Failure, PodView
from tests.builders.pod_views import a_pod


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (a_pod(phase="Succeeded"), "Succeeded"),
        (a_pod(phase="Failed", failure=Failure("main", 3, "Error")), "Failed: exit 3"),
        (a_pod(phase="Failed", failure=Failure("main", 137, "OOMKilled")), "Failed: exit 137 OOMKilled"),
        (
            a_pod(phase="Failed", failure=Failure("b", 2), containers=(Container("a"), Container("b"))),
            "Failed: exit 2 (container b)",
        ),
        (a_pod(phase="Failed", status_reason="DeadlineExceeded"), "Failed: DeadlineExceeded"),
        (
            a_pod(phase="Failed", status_reason="DeadlineExceeded", failure=Failure("main", 143)),
            "Failed: DeadlineExceeded, exit 143",
        ),
        (
            a_pod(phase="Failed", status_reason="Evicted", status_message="low.\nSorry", failure=Failure("m", 1)),
            "evicted: low. Sorry",
        ),
        (a_pod(phase="Failed", deleted_at=9.0, failure=Failure("main", 143)), "deleted: exit 143"),
        (a_pod(phase="Running"), "deleted"),
    ],
)
def test_an_end_has_its_words(pod: PodView, words: str) -> None:
    assert outcome_of(pod) == words


def test_a_note_follows_what_is_there_once() -> None:
    assert with_note("", "Pod a/b Succeeded") == "Pod a/b Succeeded"
    assert with_note("mine", "Pod a/b Succeeded") == "mine; Pod a/b Succeeded"
    assert with_note("mine; Pod a/b Succeeded", "Pod a/b Succeeded") is None
    assert with_note("mine; Pod a/b Succeeded; and more", "Pod a/b Succeeded") is None


def test_a_note_is_cut_to_the_room_and_never_in_a_character() -> None:
    mine = "x" * (LONGEST_COMMENT - 15)
    cut = with_note(mine, "Pod \u00e9\u00e9\u00e9\u00e9\u00e9\u00e9 Succeeded")
    assert cut == mine + "; Pod \u00e9\u00e9\u00e9\u00e9"
    assert with_note(cut, "Pod \u00e9\u00e9\u00e9\u00e9\u00e9\u00e9 Succeeded") is None
    assert with_note("x" * LONGEST_COMMENT, "Pod a/b Succeeded") is None
    assert with_note("x" * (LONGEST_COMMENT - 4), "Pod a/b Succeeded") is None
