"""Prove that the process before this one in the same place is dead: the kernel frees its lock when it ends.

The lock is an abstract Unix socket, whose names belong to a network namespace: that of the machine, or of the Pod,
which the containers of a Pod keep when they start again. A network namespace exists as long as a process is in it, so
boot, namespace and purpose together name a place in which one process at most holds the lock, and a name that is met
again is that of a process that is dead where the lock is free.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

_BOOT_ID, _NAMESPACE = Path("/proc/sys/kernel/random/boot_id"), "/proc/self/ns/net"


class ProcessLock(Protocol):
    """A lock that ends with the process that holds it, however that ends."""

    @property
    def name(self) -> str:
        """Return a name that no other place has; "": there is no such lock here."""
        ...

    def since(self) -> float | None:
        """Return since when this process holds the lock, which it takes if it is free; `None`: another one holds it."""
        ...

    def close(self) -> None:
        """Free the lock: the process writes nothing more."""
        ...


class SocketLock:
    """Hold the lock from the first call of `since` that finds it free. `elapsed` is the clock of its answers."""

    def __init__(self, purpose: str, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._socket: socket.socket | None = None
        self._since = 0.0
        self._name = ""
        with suppress(OSError):
            place = (_BOOT_ID.read_text(encoding="ascii").strip(), os.readlink(_NAMESPACE), purpose)
            self._name = hashlib.sha256("\0".join(place).encode()).hexdigest()[:32]

    @property
    def name(self) -> str:
        """Return the name, as `ProcessLock` does."""
        return self._name

    def since(self) -> float | None:
        """Return the start of the lock, as `ProcessLock` does."""
        if self._socket is None and self._name:
            lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                lock.bind(f"\0slurm-extender-{self._name}")
            except OSError:
                lock.close()
            else:
                self._socket, self._since = lock, self._elapsed()
        return None if self._socket is None else self._since

    def close(self) -> None:
        """Close the socket, which frees the lock, as `ProcessLock` does."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
