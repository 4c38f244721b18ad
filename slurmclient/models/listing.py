"""Answers that hold many objects, some of which may have been unreadable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """Describe an object of a reply that could not be read and was left out.

    Attributes:
        position: in the reply's list, from 0.
        name: the object's name or id as far as it could be read; empty otherwise.
        why: the error.
    """

    position: int
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Listing(Sequence[T], Generic[T]):
    """Hold the objects of a reply, in the order of Slurm.

    Attributes:
        items: those that could be read.
        unreadable: those that could not; an object that is missing from `items` is gone only if this is empty.
        last_update: the clock of Slurm at the reply, epoch seconds; None if the reply does not contain it.
    """

    items: tuple[T, ...]
    unreadable: tuple[UnreadableEntry, ...] = ()
    last_update: int | None = None

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)


class JobStates(dict[int, frozenset[str]]):
    """Hold the state words of jobs by id, as `GET /jobs/state` gives them.

    A job whose words could not be read is present without words: it exists, and no more is known.
    Tasks of arrays and components of heterogeneous jobs have no plain id (`123_4`, `123+1`); they are in
    `composite`.

    Attributes:
        composite: their words by the text of the id.
        unreadable: entries whose id could not be read; unless this is empty, an absent id may belong to one of them.
    """

    __slots__ = ("composite", "unreadable")

    def __init__(self) -> None:
        super().__init__()
        self.composite: dict[str, frozenset[str]] = {}
        self.unreadable: tuple[UnreadableEntry, ...] = ()
