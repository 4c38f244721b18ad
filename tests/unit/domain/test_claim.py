"""A claim on a Pod counts where the extender can prove that it wrote it for that Pod, and is a hint elsewhere."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from extender.domain.jobs.identity import hook_token
from extender.domain.jobs.job import Mark
from extender.domain.pods import claim
from extender.domain.pods.claim import Claim, Claims, GangPlace, derive_key
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

CLAIMS = Claims([b"key"], "cluster")
WRITTEN = CLAIMS.written(7, "n1", "uid-1", "s1")


def test_what_was_written_is_read_on_the_same_pod() -> None:
    assert CLAIMS.read(WRITTEN, "uid-1") == Claim(7, "n1", "s1")
    assert CLAIMS.read(CLAIMS.written(7, "n1", "uid-1"), "uid-1") == Claim(7, "n1")


@pytest.mark.parametrize("key", [NODE, POD_SLURM_NODE])
def test_a_claim_to_what_is_no_name_of_a_node_is_a_hint_and_is_not_remembered(key: str) -> None:
    claims = Claims([b"another key"], "cluster")
    before = claim._proof.cache_info().currsize
    for number in range(50):
        assert claims.read(WRITTEN | {key: "n" * 250_000 + str(number)}, "uid-1") == Claim(hint=7)
    assert claim._proof.cache_info().currsize == before


MEMBER = CLAIMS.written(7, "n1", "uid-1", "s1", GangPlace(2, 4, "gang-a"))


def test_the_place_of_a_member_in_its_gang_is_part_of_the_claim() -> None:
    assert CLAIMS.read(MEMBER, "uid-1") == Claim(7, "n1", "s1", gang=GangPlace(2, 4, "gang-a"))


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
    assert CLAIMS.read(MEMBER | forged, "uid-1") == Claim(hint=7)
    assert CLAIMS.read(WRITTEN | {GANG_RANK: "2", GANG_MEMBERS: "4"}, "uid-1") == Claim(hint=7)


def test_a_claim_names_the_gang_on_the_node_of_the_claim_alone() -> None:
    claim = CLAIMS.read(MEMBER, "uid-1")
    assert (claim.gang_on("n1"), claim.gang_on("n2"), claim.gang_on("")) == ("gang-a", "", "")
    assert CLAIMS.read(WRITTEN, "uid-1").gang_on("n1") == ""


def test_on_a_copy_of_the_pod_it_says_nothing() -> None:
    assert CLAIMS.read(WRITTEN, "uid-2") == Claim(foreign=True)


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
def test_a_claim_that_was_changed_is_a_hint_without_any_node(forged: dict[str, str]) -> None:
    claim = CLAIMS.read({**WRITTEN, **forged}, "uid-1")
    assert claim == Claim(hint=int(forged.get(JOB_ID, 7)))
    assert claim.job_on("n1") is None


def test_a_copied_proof_does_not_verify_on_a_pod_that_denies_being_a_copy() -> None:
    without = {key: text for key, text in WRITTEN.items() if key != POD_UID}
    assert CLAIMS.read(without, "uid-2") == Claim(hint=7)
    assert CLAIMS.read({**WRITTEN, POD_UID: "uid-2"}, "uid-2") == Claim(hint=7)
    assert CLAIMS.read(without, "uid-1") == Claim(7, "n1", "s1")


def test_another_clusters_proof_does_not_verify() -> None:
    assert Claims([b"key"], "other").read(WRITTEN, "uid-1") == Claim(hint=7)


def test_an_older_key_verifies_and_the_first_one_signs() -> None:
    rotated = Claims([b"new", b"key"], "cluster")
    assert rotated.read(WRITTEN, "uid-1").job_id == 7
    new = Claims([b"new"], "cluster")
    assert rotated.written(7, "n1", "uid-1", "s1") == new.written(7, "n1", "uid-1", "s1")
    assert new.read(WRITTEN, "uid-1") == Claim(hint=7)


def test_a_token_of_a_job_is_no_proof() -> None:
    token = hook_token(b"key", Mark("cluster", "slurm", "uid-1", 7))
    for text in (token, f"v1.{token}", hmac.digest(b"key", b"anything", hashlib.sha256).hex()):
        assert CLAIMS.read({**WRITTEN, ALLOCATION_PROOF: text}, "uid-1").job_id is None


def test_the_key_is_derived_as_the_standard_says() -> None:
    """The same as HKDF of the library that nothing which serves imports."""
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    for key in (b"", b"key", b"x" * 200):
        kdf = HKDF(SHA256(), 32, b"slurm-extender.io", b"proof of a claim, version 1")
        assert derive_key(key) == kdf.derive(key)


def test_there_is_no_claim_without_a_key() -> None:
    with pytest.raises(ValueError, match="need a key"):
        Claims([], "cluster")


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "7.0", " 7", "\u0667", "4294967296", "9" * 5000])
def test_what_is_no_job_id_says_nothing(text: str) -> None:
    assert CLAIMS.read({JOB_ID: text, NODE: "n1", POD_UID: "uid-1"}, "uid-1") == Claim()


def test_a_claim_is_to_a_job_on_its_node_alone() -> None:
    claim = CLAIMS.read(WRITTEN, "uid-1")
    assert (claim.job_on("n1"), claim.job_on("n2"), claim.job_on("")) == (7, None, None)
