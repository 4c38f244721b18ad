"""The faults of a gang are few and short, however many members have them."""

from __future__ import annotations

from collections.abc import Callable

from extender.domain.gangs.agreement import Disagreed
from extender.domain.gangs.completeness import Complete, GangCandidate
from extender.domain.gangs.membership import GangSource, MemberOrder, Membership
from extender.domain.translation.gang_request import MOST_CHARACTERS, MOST_FAULTS, gang_request
from extender.domain.translation.translate import TranslationRefused
from tests.builders.pod_views import a_pod

MEMBERS = 1024


def faults_of(faults: Callable[[int], tuple[str, ...]], members: int = MEMBERS) -> tuple[str, ...]:
    """Return the faults of a gang whose member of each number has these."""
    pods = [a_pod(uid=f"uid-{number}", name=f"train-{number}") for number in range(members)]
    memberships = [
        Membership(GangSource.JOB, "team", "Job train", ("j",), members, MemberOrder((number,), pod.name))
        for number, pod in enumerate(pods)
    ]
    found = Complete(tuple(map(GangCandidate, pods, memberships)), members)
    refused = {pod.uid: TranslationRefused(faults(number)) for number, pod in enumerate(pods)}
    outcome = gang_request(found, refused)
    assert isinstance(outcome, Disagreed)
    return outcome.faults


def test_a_fault_of_every_member_is_one_sentence_with_the_first_members_and_the_number_of_the_others() -> None:
    (sentence,) = faults_of(lambda _number: ("partion: there is no such setting",))
    names = "team/train-0, team/train-1, team/train-2"
    assert sentence == f"Pods {names} and 1021 more: partion: there is no such setting"


def test_a_fault_of_one_member_names_it() -> None:
    found = faults_of(lambda number: ("wrong",) if number else ("wrong", "odd"), members=2)
    assert found == ("Pods team/train-0, team/train-1: wrong", "Pod team/train-0: odd")


def test_the_faults_of_a_thousand_members_are_bounded_in_number_and_in_characters() -> None:
    found = faults_of(lambda number: tuple(f"{number}-{fault}: wrong" for fault in range(21)))
    assert len(found) == MOST_FAULTS + 1
    assert found[0] == "Pod team/train-0: 0-0: wrong"
    assert found[-1] == f"{MEMBERS * 21 - MOST_FAULTS} more faults; correct these first"
    long = faults_of(lambda number: tuple(f"{number}-{fault}: {'x' * 300}" for fault in range(21)))
    assert sum(map(len, long[:-1])) <= MOST_CHARACTERS
    assert long[-1] == f"{MEMBERS * 21 - len(long) + 1} more faults; correct these first"


def test_a_fault_that_is_too_long_alone_is_cut() -> None:
    first, more = faults_of(lambda number: (f"{number}{'x' * 2 * MOST_CHARACTERS}",))
    assert (len(first), first[-4:]) == (MOST_CHARACTERS, "x...")
    assert more == f"{MEMBERS - 1} more faults; correct these first"
