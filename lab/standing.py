"""What is up between ``with`` and its end, and is taken down whole where its start fails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import Self


class Standing(ABC):
    """A part of a site. What `_start` brings up goes onto `_stack`, and comes down from there."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @abstractmethod
    def _start(self) -> None:
        """Bring it up."""
