"""A checkpoint tells a Pod that was deleted from one that a restore of etcd took back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.jobs.checkpoint import Checkpoint, PodAbsence, read_checkpoint, why_absent, writer_id
from extender.domain.jobs.identity import decode_mark, encode_mark, hook_token, with_members
from extender.domain.jobs.job import Mark

A, B = "a" * 16, "b" * 16
MARK = Mark("6f1c", "slurm", "uid-web", 2)


@pytest.mark.parametrize(
    ("named", "written", "why"),
    [
        (Checkpoint(A, 3), {A: 3}, PodAbsence.DELETED),
        (Checkpoint(A, 3), {A: 9, B: 1}, PodAbsence.DELETED),
        (Checkpoint(A, 3), {A: 2, B: 9}, PodAbsence.RESTORED),
        (Checkpoint(A, 3), {B: 9}, PodAbsence.RESTORED),
        (Checkpoint(A, 1), {}, PodAbsence.RESTORED),
        (Checkpoint(A, 3), None, PodAbsence.UNREADABLE),
        (Checkpoint(A, 3, members_may_join=True), {A: 3}, PodAbsence.UNMARKED),
        (Checkpoint(A, 3, members_may_join=True), {A: 2}, PodAbsence.RESTORED),
        (None, {A: 9}, PodAbsence.UNMARKED),
        (None, None, PodAbsence.UNMARKED),
    ],
)
def test_only_a_checkpoint_that_is_there_proves_a_deletion(
    named: Checkpoint | None, written: Mapping[str, int] | None, why: PodAbsence
) -> None:
    assert why_absent(named, written) is why


@pytest.mark.parametrize(
    "text",
    ["", A, f"{A}.0", f"{A}.-1", f"{A}.01", f"{A.upper()}.1", f"{A}.{10**12 + 1}", f"x{A}.1", f"{A}.1 ", 7, None, []],
)
def test_other_text_is_no_checkpoint(text: object) -> None:
    assert read_checkpoint(text) is None


@given(st.text(max_size=40))
def test_any_text_is_read_without_an_error(text: str) -> None:
    found = read_checkpoint(text)
    assert found is None or str(found) == text


def test_a_mark_names_its_checkpoint_and_its_token_does_not_depend_on_it() -> None:
    named = replace(MARK, checkpoint=Checkpoint(A, 7))
    assert decode_mark(encode_mark(named)) == named
    assert hook_token(b"key", named) == hook_token(b"key", MARK)
    odd = json.dumps(json.loads(encode_mark(named)) | {"h": "x"})
    assert decode_mark(odd) == MARK
    long = replace(named, workload="u" * 950)
    assert decode_mark(encode_mark(long)) == replace(long, checkpoint=None)


def test_a_mark_names_the_slots_that_had_a_pod_and_never_fewer_than_before() -> None:
    named = replace(MARK, checkpoint=Checkpoint(A, 7), slots=2)
    text = encode_mark(named)
    assert decode_mark(text) == named
    assert hook_token(b"key", named) == hook_token(b"key", MARK)
    for slots, after in ((1, 2), (2, 2), (3, 3)):
        assert decode_mark(with_members(text, None, slots)) == replace(named, slots=after)
    earlier = encode_mark(replace(named, slots=None))
    assert decode_mark(with_members(earlier, Checkpoint(B, 1), 3)) == replace(MARK, checkpoint=Checkpoint(B, 1))
    for odd in (-1, "2", True, 1.5):
        assert decode_mark(json.dumps(json.loads(text) | {"n": odd})) == replace(named, slots=None)


def test_writers_sort_by_age_and_differ() -> None:
    assert writer_id(1_000_000.0, 7) < writer_id(1_000_001.0, 3)
    assert writer_id(1_000_000.0, 7) != writer_id(1_000_000.0, 8)
    assert len(writer_id(2.0**40, 2**40)) == 16


@dataclass
class Etcd:
    """What the API server keeps, and what it kept at each snapshot."""

    pods: set[int] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)
    snapshots: list[tuple[set[int], dict[str, int], set[int]]] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    """Pods that a restore took back, and that were not deleted before."""


class History:
    """Pods, jobs and restores, with the rules by which the extender writes checkpoints."""

    def __init__(self) -> None:
        self.etcd = Etcd()
        self.jobs: dict[int, Checkpoint] = {}
        self.deleted: set[int] = set()
        self.writer: Checkpoint | None = None
        self.made = self.writers = 0

    def step(self, what: str) -> None:
        getattr(self, what)()

    def start(self) -> None:
        """Another process."""
        self.writer = None

    def submit(self) -> None:
        """A Pod is created; the extender writes a checkpoint, and submits its job."""
        self.made += 1
        self.etcd.pods.add(self.made)
        self.jobs[self.made] = self.write()

    def write(self) -> Checkpoint:
        numbers, last = self.etcd.numbers, self.writer
        if last is not None and numbers.get(last.writer) == last.number:
            self.writer = Checkpoint(last.writer, last.number + 1)
        else:
            self.writers += 1
            self.writer = Checkpoint(f"{self.writers:016x}", 1)
        numbers[self.writer.writer] = self.writer.number
        return self.writer

    def delete(self) -> None:
        """The oldest Pod is deleted, and its job stays: no extender was there."""
        if self.etcd.pods:
            gone = min(self.etcd.pods)
            self.etcd.pods.discard(gone)
            self.deleted.add(gone)

    def save(self) -> None:
        self.etcd.snapshots.append((set(self.etcd.pods), dict(self.etcd.numbers), set(self.etcd.lost)))

    def restore(self) -> None:
        """The last snapshot; the extender may run on meanwhile."""
        if self.etcd.snapshots:
            pods, numbers, _ = self.etcd.snapshots[-1]
            self.etcd.lost |= self.etcd.pods - pods
            self.etcd.pods, self.etcd.numbers = set(pods), dict(numbers)
            self.deleted -= pods


@given(st.lists(st.sampled_from(["start", "submit", "submit", "delete", "save", "restore"]), max_size=40))
def test_no_history_of_restores_and_starts_makes_a_lost_pod_appear_deleted(steps: list[str]) -> None:
    history = History()
    restored = False
    for step in steps:
        history.step(step)
        restored = restored or step == "restore"
    for pod, checkpoint in history.jobs.items():
        if pod in history.etcd.pods:
            continue
        why = why_absent(checkpoint, history.etcd.numbers)
        if pod in history.etcd.lost:
            assert why is PodAbsence.RESTORED
        if not restored:
            assert why is PodAbsence.DELETED


@pytest.mark.parametrize("joins", [True, False])
def test_a_checkpoint_is_read_back_as_it_was_written(joins: bool) -> None:
    assert read_checkpoint(str(Checkpoint(A, 7, joins))) == Checkpoint(A, 7, joins)
