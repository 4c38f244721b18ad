"""An allocation record counts where the extender can prove that it wrote it for that Pod, and is a hint elsewhere."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from extender.domain.jobs.identity import hook_token
from extender.domain.jobs.job import Mark
from extender.domain.pods import allocation_record
from extender.domain.pods.allocation_record import AllocationRecord, AllocationRecords, GangPlace, derive_key
from extender.domain.wellknown import (
    ALLOCATION_PROOF,
    GANG_KEY,
    GANG_MEMBERS,
    GANG_RANK,
    JOB_ID,
    NODE,
    POD_SLURM_NODE,
    POD_UID,
)

ALLOCATION_RECORDS = AllocationRecords([b"key"], "cluster")
WRITTEN = ALLOCATION_RECORDS.written(7, "n1", "uid-1", "s1")


def test_what_was_written_is_read_on_the_same_pod() -> None:
    assert ALLOCATION_RECORDS.read(WRITTEN, "uid-1") == AllocationRecord(7, "n1", "s1")
    assert ALLOCATION_RECORDS.read(ALLOCATION_RECORDS.written(7, "n1", "uid-1"), "uid-1") == AllocationRecord(7, "n1")


@pytest.mark.parametrize("key", [NODE, POD_SLURM_NODE])
def test_a_record_with_what_is_no_name_of_a_node_is_a_hint_and_is_not_remembered(key: str) -> None:
    allocation_records = AllocationRecords([b"another key"], "cluster")
    before = allocation_record._proof.cache_info().currsize
    for number in range(50):
        assert allocation_records.read(WRITTEN | {key: "n" * 250_000 + str(number)}, "uid-1") == AllocationRecord(
            hint=7
        )
    assert allocation_record._proof.cache_info().currsize == before


MEMBER = ALLOCATION_RECORDS.written(7, "n1", "uid-1", "s1", GangPlace(2, 4, "gang-a"))


def test_the_place_of_a_member_in_its_gang_is_part_of_the_record() -> None:
    assert ALLOCATION_RECORDS.read(MEMBER, "uid-1") == AllocationRecord(7, "n1", "s1", gang=GangPlace(2, 4, "gang-a"))


@pytest.mark.parametrize(
    "forged",
    [
        {GANG_RANK: "0"},
        {GANG_MEMBERS: "3"},
        {GANG_RANK: ""},
        {GANG_RANK: "9" * 9},
        {GANG_KEY: ""},
        {GANG_KEY: "gang-b"},
    ],
)
def test_a_place_in_a_gang_that_was_changed_proves_nothing(forged: dict[str, str]) -> None:
    assert ALLOCATION_RECORDS.read(MEMBER | forged, "uid-1") == AllocationRecord(hint=7)
    assert ALLOCATION_RECORDS.read(WRITTEN | {GANG_RANK: "2", GANG_MEMBERS: "4"}, "uid-1") == AllocationRecord(hint=7)


def test_a_record_names_the_gang_on_the_node_of_the_record_alone() -> None:
    record = ALLOCATION_RECORDS.read(MEMBER, "uid-1")
    assert (record.gang_on("n1"), record.gang_on("n2"), record.gang_on("")) == ("gang-a", "", "")
    assert ALLOCATION_RECORDS.read(WRITTEN, "uid-1").gang_on("n1") == ""


def test_on_a_copy_of_the_pod_it_says_nothing() -> None:
    assert ALLOCATION_RECORDS.read(WRITTEN, "uid-2") == AllocationRecord(foreign=True)


@pytest.mark.parametrize(
    "forged",
    [
        {JOB_ID: "8"},
        {NODE: "n2"},
        {POD_SLURM_NODE: "s2"},
        {POD_SLURM_NODE: ""},
        {ALLOCATION_PROOF: ""},
        {ALLOCATION_PROOF: WRITTEN[ALLOCATION_PROOF][:-1]},
        {ALLOCATION_PROOF: WRITTEN[ALLOCATION_PROOF] + "0"},
        {ALLOCATION_PROOF: WRITTEN[ALLOCATION_PROOF] * 10_000},
        {ALLOCATION_PROOF: WRITTEN[ALLOCATION_PROOF].replace("v1.", "v2.")},
        {ALLOCATION_PROOF: WRITTEN[ALLOCATION_PROOF].upper()},
        {ALLOCATION_PROOF: "v1.\ud800"},
    ],
)
def test_a_record_that_was_changed_is_a_hint_without_any_node(forged: dict[str, str]) -> None:
    record = ALLOCATION_RECORDS.read({**WRITTEN, **forged}, "uid-1")
    assert record == AllocationRecord(hint=int(forged.get(JOB_ID, 7)))
    assert record.job_on("n1") is None


def test_a_copied_proof_does_not_verify_on_a_pod_that_denies_being_a_copy() -> None:
    without = {key: text for key, text in WRITTEN.items() if key != POD_UID}
    assert ALLOCATION_RECORDS.read(without, "uid-2") == AllocationRecord(hint=7)
    assert ALLOCATION_RECORDS.read({**WRITTEN, POD_UID: "uid-2"}, "uid-2") == AllocationRecord(hint=7)
    assert ALLOCATION_RECORDS.read(without, "uid-1") == AllocationRecord(7, "n1", "s1")


def test_another_clusters_proof_does_not_verify() -> None:
    assert AllocationRecords([b"key"], "other").read(WRITTEN, "uid-1") == AllocationRecord(hint=7)


def test_an_older_key_verifies_and_the_first_one_signs() -> None:
    rotated = AllocationRecords([b"new", b"key"], "cluster")
    assert rotated.read(WRITTEN, "uid-1").job_id == 7
    new = AllocationRecords([b"new"], "cluster")
    assert rotated.written(7, "n1", "uid-1", "s1") == new.written(7, "n1", "uid-1", "s1")
    assert new.read(WRITTEN, "uid-1") == AllocationRecord(hint=7)


def test_a_token_of_a_job_is_no_proof() -> None:
    token = hook_token(b"key", Mark("cluster", "slurm", "uid-1", 7))
    for text in (token, f"v1.{token}", hmac.digest(b"key", b"anything", hashlib.sha256).hex()):
        assert ALLOCATION_RECORDS.read({**WRITTEN, ALLOCATION_PROOF: text}, "uid-1").job_id is None


def test_the_key_is_derived_as_the_standard_says() -> None:
    """The same as HKDF of the library that nothing which serves imports."""
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    for key in (b"", b"key", b"x" * 200):
        kdf = HKDF(SHA256(), 32, b"slurm-extender.io", b"proof of a claim, version 1")
        assert derive_key(key) == kdf.derive(key)


def test_there_is_no_record_without_a_key() -> None:
    with pytest.raises(ValueError, match="need a key"):
        AllocationRecords([], "cluster")


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "7.0", " 7", "\u0667", "4294967296", "9" * 5000])
def test_what_is_no_job_id_says_nothing(text: str) -> None:
    assert ALLOCATION_RECORDS.read({JOB_ID: text, NODE: "n1", POD_UID: "uid-1"}, "uid-1") == AllocationRecord()


def test_a_record_is_of_a_job_on_its_node_alone() -> None:
    record = ALLOCATION_RECORDS.read(WRITTEN, "uid-1")
    assert (record.job_on("n1"), record.job_on("n2"), record.job_on("")) == (7, None, None)
