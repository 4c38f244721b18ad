"""One object of a large list, which may have been read before."""

from __future__ import annotations


class ListEntry(dict[str, object]):
    """An object of a list. `item`: what it was read as; where that was before, the object is empty."""

    __slots__ = ("digest", "item")

    def __init__(self, digest: bytes, raw: dict[str, object], item: object = None) -> None:
        super().__init__(raw)
        self.digest = digest
        self.item = item
