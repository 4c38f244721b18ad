"""The allocation record on a Pod: which job and node Slurm gave it, and the proof that the extender wrote that.

Authors of Pods can write any annotation and name any node, so annotations alone prove nothing. The proof is an HMAC
over the Pod's UID, the job, the node and the place in a gang, made with a key that they do not have. A record without
a valid proof is a hint: the extender reads the job, and it is the Pod's only if its own fields prove that
(`domain.jobs.ownership`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from extender.domain.timestamp import timestamp
from extender.domain.wellknown import (
    ALLOCATION_PROOF,
    GANG_KEY,
    GANG_MEMBERS,
    GANG_RANK,
    JOB_ID,
    NODE,
    POD_SLURM_NODE,
    POD_UID,
    REQUEUED_AT,
)

MOST = 2**32 - 1
"""slurmctld's job ids have 32 bits (`slurm.h`)."""

_VERSION = 1
_SALT = b"slurm-extender.io"
_PURPOSE = b"proof of a claim, version 1"
"""Keeps this key apart from that of job tokens: a token never verifies as a proof."""

_LONGEST_PROOF = 80
"""Characters of a proof that are compared; one has 67."""

LONGEST_NAME = 255
"""Characters of the name of a node, on either side. Whatever is longer is no name, and is kept in no cache."""


HIGHEST_RANK = 99_999


@dataclass(frozen=True, slots=True)
class GangPlace:
    """The place of a Pod in its gang: the rank, how many slots the job was given, and the key of the gang."""

    rank: int
    size: int
    key: str = ""


@dataclass(frozen=True, slots=True)
class AllocationRecord:
    """The job and the node that Slurm gave a Pod, as its annotations prove.

    `slurm_node` is Slurm's own name of that node; "": the Pod was not bound yet. `foreign`: what is written was written
    for another Pod. `hint` is a job that is written without a proof; it says where to look, and no more.
    """

    job_id: int | None = None
    node: str = ""
    slurm_node: str = ""
    foreign: bool = False
    hint: int | None = None
    gang: GangPlace | None = None

    def job_on(self, node: str) -> int | None:
        """Return the job for which the Pod was bound to this node; a grant's record stays on a Pod that others bind."""
        return self.job_id if node and self.node == node else None

    def gang_on(self, node: str) -> str:
        """Return the key of the gang of which the Pod is a member on this node; "": it was bound by itself."""
        return "" if self.gang is None or self.job_on(node) is None else self.gang.key


def derive_key(key: bytes, purpose: bytes = _PURPOSE) -> bytes:
    """Return the key of proofs that follows from the key of the hooks, by HKDF with SHA-256 (RFC 5869).

    One block of output needs two calls of HMAC; nothing that serves imports `cryptography`, which takes 30 MiB.
    """
    extracted = hmac.digest(_SALT, key, hashlib.sha256)
    return hmac.digest(extracted, purpose + b"\x01", hashlib.sha256)


class AllocationRecords:
    """Write and read the allocation records of one cluster's Pods.

    `keys` are those of the hooks: the first one signs, all verify, so that a key can be replaced while Pods run.
    """

    def __init__(self, keys: Sequence[bytes], cluster: str) -> None:
        if not keys:
            raise ValueError("allocation records need a key: without one no proof can be made")
        self._keys = tuple(derive_key(key) for key in keys)
        self._cluster = cluster

    def written(
        self, job_id: int | None, node: str, uid: str, slurm_node: str = "", gang: GangPlace | None = None
    ) -> dict[str, str]:
        """Return the annotations for the Pod with this UID; `slurm_node` where it is bound, `gang` for a member."""
        given = {POD_SLURM_NODE: slurm_node} if slurm_node else {}
        if gang is not None:
            given |= {GANG_RANK: str(gang.rank), GANG_MEMBERS: str(gang.size), GANG_KEY: gang.key}
        proof = _proof(self._keys[0], self._cluster, uid, job_id, node, slurm_node, *_signed(gang))
        return {JOB_ID: str(job_id), NODE: node, POD_UID: uid, ALLOCATION_PROOF: proof, **given}

    def read(self, annotations: Mapping[str, str], uid: str) -> AllocationRecord:
        """Return what the annotations say of the Pod with this UID."""
        if annotations.get(POD_UID, uid) != uid:
            return AllocationRecord(foreign=True)
        job_id = _job_id(annotations.get(JOB_ID, ""))
        if job_id is None:
            return AllocationRecord()
        node, slurm_node = annotations.get(NODE, ""), annotations.get(POD_SLURM_NODE, "")
        if max(len(node), len(slurm_node)) > LONGEST_NAME:  # no name of a node: it is not kept beside its proof
            return AllocationRecord(hint=job_id)
        gang = _gang_place(annotations)
        proof = annotations.get(ALLOCATION_PROOF, "")[:_LONGEST_PROOF].encode(errors="replace")
        if proof and any(
            hmac.compare_digest(
                _proof(key, self._cluster, uid, job_id, node, slurm_node, *_signed(gang)).encode(), proof
            )
            for key in self._keys
        ):
            return AllocationRecord(job_id, node, slurm_node, gang=gang)
        return AllocationRecord(hint=job_id)


def woken_at(wall: float) -> dict[str, str]:
    """Return the annotation for a Pod that kube-scheduler is to try again, though nothing else changes on it."""
    return {REQUEUED_AT: timestamp(wall)}


def _gang_place(annotations: Mapping[str, str]) -> GangPlace | None:
    """Return the place in a gang as written; `None`: none is written, or not as the extender writes it."""
    rank, size = (_number(annotations.get(key, "")) for key in (GANG_RANK, GANG_MEMBERS))
    return None if rank is None or size is None else GangPlace(rank, size, annotations.get(GANG_KEY, "")[:LONGEST_NAME])


def _number(text: str) -> int | None:
    short = 0 < len(text) <= len(str(HIGHEST_RANK)) and text.isascii() and text.isdecimal()
    return int(text) if short else None


def _signed(gang: GangPlace | None) -> tuple[int | str, ...]:
    return () if gang is None else (gang.rank, gang.size, gang.key)


def _job_id(text: str) -> int | None:
    """Return the id of a job; `None`: the text is none."""
    number = int(text) if len(text) <= len(str(MOST)) and text.isascii() and text.isdecimal() else 0
    return number if 0 < number <= MOST else None


@lru_cache(maxsize=16_384)  # what is on bound Pods is compared every few seconds
def _proof(key: bytes, *signed: str | int | None) -> str:
    text = json.dumps([_VERSION, *signed], separators=(",", ":"))
    return f"v{_VERSION}.{hmac.digest(key, text.encode(), hashlib.sha256).hex()}"
