"""What is written on a Pod about its job speaks of that Pod alone."""

from __future__ import annotations

import pytest

from extender.domain.pods.claim import Claim, read_claim, written_claim
from extender.domain.wellknown import JOB_ID, NODE, POD


def test_what_was_written_is_read_on_the_same_pod() -> None:
    assert read_claim(written_claim(7, "n1", "uid-1"), "uid-1") == Claim(7, "n1")


def test_on_a_copy_of_the_pod_it_says_nothing() -> None:
    assert read_claim(written_claim(7, "n1", "uid-1"), "uid-2") == Claim(foreign=True)


def test_a_pod_bound_by_an_earlier_release_is_believed_without_a_uid() -> None:
    assert read_claim({JOB_ID: "7", NODE: "n1"}, "uid-1") == Claim(7, "n1")
    assert read_claim({JOB_ID: "7"}, "uid-1").job_on("n1") == 7


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "7.0", " 7", "\u0667", "4294967296", "9" * 5000])
def test_what_is_no_job_id_says_nothing(text: str) -> None:
    assert read_claim({JOB_ID: text, NODE: "n1", POD: "uid-1"}, "uid-1").job_id is None


def test_a_claim_is_to_a_job_on_its_node_alone() -> None:
    claim = read_claim(written_claim(7, "n1", "uid-1"), "uid-1")
    assert (claim.job_on("n1"), claim.job_on("n2"), claim.job_on("")) == (7, None, None)
