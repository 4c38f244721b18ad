"""Distinguish a deleted Pod from one that a restore of etcd took back, by a checkpoint that the mark of its job names.

Before the extender submits a job, it writes a checkpoint to Kubernetes, after it has seen the Pods of the job. So a
history of etcd that has the checkpoint has had these Pods too: where they are absent, they were deleted. A history
without it was set back to a time before. Only the mark in `admin_comment` counts, which no owner of a job can write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

WRITER = re.compile(r"[0-9a-f]{16}")
"""Eight digits of the time of its first checkpoint, so that writers sort by age, and eight random ones."""

HIGHEST = 10**12
"""A number above this is not one that the extender wrote."""

_TEXT = re.compile(r"([0-9a-f]{16})\.([1-9][0-9]{0,12})(\+?)")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The `number`-th checkpoint of a writer: one process, or a part of its life."""

    writer: str
    number: int
    members_may_join: bool = False
    """A Pod that took a free slot of a gang's job may be younger than the checkpoint, since none could be written when
    it came. So this one proves nothing about its absence. That the checkpoint is missing still proves a restore."""

    def __str__(self) -> str:
        return f"{self.writer}.{self.number}{'+' if self.members_may_join else ''}"


def read_checkpoint(text: object) -> Checkpoint | None:
    """Return the checkpoint that a mark names; `None`: it names none that the extender wrote."""
    found = _TEXT.fullmatch(text) if isinstance(text, str) and len(text) <= 30 else None
    if found is None or int(found[2]) > HIGHEST:
        return None
    return Checkpoint(found[1], int(found[2]), bool(found[3]))


def writer_id(wall: float, random_bits: int) -> str:
    """Return the name of a writer that begins now."""
    return f"{int(wall) & 0xFFFFFFFF:08x}{random_bits & 0xFFFFFFFF:08x}"


class PodAbsence(StrEnum):
    """The reason why the Pods of a job are absent."""

    DELETED = "deleted"
    """Kubernetes has the checkpoint."""

    RESTORED = "restored"
    """Kubernetes lacks the checkpoint."""

    UNREADABLE = "unreadable"
    """The checkpoints could not be read."""

    UNMARKED = "unmarked"
    """The mark names no checkpoint that proves a deletion: an earlier version made the job, or the checkpoint could not
    be written, before the job was submitted or before a later member of its gang was bound."""


def why_absent(named: Checkpoint | None, written: Mapping[str, int] | None) -> PodAbsence:
    """Judge the absence of the Pods of a job whose mark names this checkpoint.

    `written`: the last number of each writer that Kubernetes has, read after the Pods were found to be absent; `None`:
    it could not be read.
    """
    if named is None:
        return PodAbsence.UNMARKED
    if written is None:
        return PodAbsence.UNREADABLE
    if written.get(named.writer, 0) < named.number:
        return PodAbsence.RESTORED
    return PodAbsence.UNMARKED if named.members_may_join else PodAbsence.DELETED
