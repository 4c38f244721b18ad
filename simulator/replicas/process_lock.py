"""Simulate the locks of processes, which end with the process that holds them."""

from __future__ import annotations

from typing import Protocol

from extender.assembly.io_context import running_time


class LockHolder(Protocol):
    """Hold a process lock until the process ends."""

    @property
    def alive(self) -> bool:
        """Return whether the process has not ended; one that is stopped has not."""
        ...


class SimProcessLock:
    """The lock of a place: free once the process that holds it has ended. `held` has the last holder of each place."""

    def __init__(self, place: str, process: LockHolder, held: dict[str, LockHolder]) -> None:
        self.name = place
        self._process = process
        self._held = held
        self._since: float | None = None

    def since(self) -> float | None:
        """Return the start of the lock, as `ProcessLock` does."""
        holder = self._held.get(self.name)
        if self._since is None and (holder is None or not holder.alive):
            self._held[self.name] = self._process
            self._since = running_time()
        return self._since

    def close(self) -> None:
        """Free the lock once the process has ended, as `ProcessLock` does."""
