"""Parts of a lab as context managers that clean up after a failed start."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import Self


class ManagedService(ABC):
    """Start a part of a lab on `__enter__`, and stop everything that was started if the start fails.

    `_start` puts the end of everything that it starts on `_stack`.
    """

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
        """Start the service."""
