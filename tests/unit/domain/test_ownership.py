"""What says that a job is ours: never only what anybody could write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain.events import MemberRef
from extender.domain.jobs.identity import encode_mark, job_name
from extender.domain.jobs.job import JobRequest, JobView, Mark, RunAs
from extender.domain.jobs.ownership import Proof, caller_shown_by, is_certain, mark_of_orphan, pod_of, proof
from extender.domain.jobs.request_digests import request_digests

OURS = Mark("c", "s", "workload-1", 3)
MARK, OTHER = encode_mark(OURS), encode_mark(Mark("c", "s", "workload-2", 1))
NAME = job_name("team/web", "c", "s", "workload-1")
OWNER, STRANGER = 2001, 2002


def a_job(name: str = NAME, admin: str = "", extra: str = "", user: int = OWNER) -> JobView:
    return JobView(7, name, "RUNNING", extra=extra, admin_comment=admin, user_id=user)


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("owner", [None, OWNER, STRANGER])
def test_the_mark_that_no_owner_can_write_decides(recorded: bool, owner: int | None) -> None:
    assert proof(a_job("renamed", MARK, OTHER), "workload-1", NAME, recorded=recorded, owner=owner) is Proof.MARK
    assert proof(a_job(NAME, OTHER, MARK), "workload-1", NAME, recorded=recorded, owner=owner) is None


@pytest.mark.parametrize(
    ("job", "found", "by_id"),
    [
        (a_job(extra=MARK), Proof.OWN_EXTRA, Proof.OWN_EXTRA),
        (a_job(), Proof.NAME, Proof.NAME),
        (a_job("renamed", extra=MARK), None, Proof.OWN_EXTRA),
        (a_job("renamed"), None, None),
        (a_job(extra=OTHER), None, None),
        (a_job(extra=MARK, user=STRANGER), None, Proof.OWN_EXTRA),
        (a_job(user=STRANGER), None, Proof.NAME),
    ],
)
def test_what_any_user_can_write_needs_the_right_user_or_a_recorded_id(
    job: JobView, found: Proof | None, by_id: Proof | None
) -> None:
    assert proof(job, "workload-1", NAME, recorded=False, owner=OWNER) is found
    assert proof(job, "workload-1", NAME, recorded=False, owner=None) is None
    assert proof(job, "workload-1", NAME, recorded=True, owner=OWNER) is by_id


@pytest.mark.parametrize(
    ("job", "recorded", "user_submits", "certain"),
    [
        (a_job(), False, True, False),
        (a_job(extra=MARK), False, True, False),
        (a_job(admin=MARK), False, True, True),
        (a_job(), True, True, True),
        (a_job(), False, False, True),
    ],
)
def test_a_job_that_its_user_could_have_submitted_is_not_certain(
    job: JobView, recorded: bool, user_submits: bool, certain: bool
) -> None:
    assert is_certain(job, recorded=recorded, user_submits=user_submits) is certain


@pytest.mark.parametrize(
    ("job", "caller", "said"),
    [
        (a_job(admin=MARK, user=STRANGER), None, (OURS, True)),
        (a_job(extra=MARK), OWNER, (OURS, True)),
        (a_job(extra=MARK), STRANGER, (OURS, False)),
        (a_job(extra=MARK), None, (OURS, False)),
        (a_job("copied", extra=MARK), OWNER, (OURS, False)),
        (a_job(), OWNER, (None, False)),
        (a_job(admin=encode_mark(Mark("c2", "s", "workload-1", 3))), OWNER, (None, False)),
        (a_job(admin=encode_mark(Mark("c", "s2", "workload-1", 3))), OWNER, (None, False)),
    ],
)
def test_a_job_that_no_workload_names_is_the_extenders_only_if_no_other_client_could_have_made_it(
    job: JobView, caller: int | None, said: tuple[Mark | None, bool]
) -> None:
    assert mark_of_orphan(job, Mark("c", "s", "", 0), caller) == said


REQUESTED = JobRequest("web", 2, 100)
MADE = encode_mark(replace(OURS, request_digests=request_digests(REQUESTED)))


def test_a_job_that_was_requested_as_no_other_user_shows_as_which_user_the_extender_submits() -> None:
    assert caller_shown_by(a_job(admin=MADE), REQUESTED) == OWNER


@pytest.mark.parametrize(
    ("job", "requested"),
    [
        (a_job(extra=MADE), REQUESTED),
        (a_job(admin=MARK), REQUESTED),
        (a_job(admin=MADE), replace(REQUESTED, run_as=RunAs(OWNER, OWNER))),
        (a_job(admin=MADE), None),
        (
            a_job(
                admin=encode_mark(
                    replace(OURS, request_digests=request_digests(replace(REQUESTED, run_as=RunAs(7, 7))))
                )
            ),
            REQUESTED,
        ),
    ],
    ids=["its owner can write that", "an earlier release", "asked for a user", "not known", "was asked for a user"],
)
def test_no_other_job_shows_its_caller(job: JobView, requested: JobRequest | None) -> None:
    assert caller_shown_by(job, requested) is None


@pytest.mark.parametrize(
    ("pod", "name", "found"),
    [
        ("team/train", "anything-0123456789", MemberRef("uid-1", "team", "train")),
        ("", "team/train-0-0123456789", MemberRef("uid-1", "team", "train-0")),
        ("", "training-0123456789", None),
        ("", "../../x-0123456789", None),
        ("", "team/..-0123456789", None),
        ("team/../x", "team/train-0-0123456789", None),
    ],
)
def test_the_pod_of_a_job_is_named_by_its_mark_or_by_the_name_of_a_job_of_earlier_releases(
    pod: str, name: str, found: MemberRef | None
) -> None:
    assert pod_of(JobView(7, name, "RUNNING"), Mark("c", "s", "uid-1", 1, pod=pod)) == found
