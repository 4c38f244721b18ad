"""Free TCP ports on loopback, reserved among all labs of this machine."""

import fcntl
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.errors import LabError

FIRST, LAST = 20000, 29999
"""Below the ephemeral range of Linux (32768 and up): no outgoing connection takes a port between choice and use."""


class Ports:
    """Ports taken for one lab; each is a locked file in ``folder``, so that the kernel frees it when the owner dies."""

    def __init__(self, folder: Path, *, start: int | None = None) -> None:
        self._folder = folder
        # Labs that start together begin their search far apart; correctness rests on the locks alone.
        self._next = FIRST + ((os.getpid() if start is None else start) * 97) % (LAST - FIRST)
        self._locks: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def take(self) -> int:
        """Return a port that no process and no other lab uses; raise LabError when all are taken."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for _ in range(FIRST, LAST + 1):
            port = self._next
            self._next = FIRST if port == LAST else port + 1
            if self._reserve(port):
                return port
        raise LabError(f"no free port between {FIRST} and {LAST} on 127.0.0.1")

    def release(self) -> None:
        """Give all ports back."""
        while self._locks:
            os.close(self._locks.pop())

    def _reserve(self, port: int) -> bool:
        lock = os.open(self._folder / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                os.close(lock)
                return False
        self._locks.append(lock)
        return True
