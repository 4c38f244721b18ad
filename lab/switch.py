"""Several processes behind one port of loopback: each connection goes to the next one that takes it, as a Service's."""

import contextlib
import select
import socket
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"


class Switch:
    """Listen on ``port`` between ``with`` and its end; ``taken`` counts the connections by the port they went to.

    Not ``patient``: a connection that the next one in turn does not take is refused, as by kube-proxy.
    """

    def __init__(self, port: int, behind: Sequence[int], *, patient: bool = True) -> None:
        self._patient = patient
        self._lock = threading.Lock()
        self.taken = dict.fromkeys(behind, 0)
        self._port = port
        self._behind = list(behind)
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket()

    def __enter__(self) -> Self:
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((LOOPBACK, self._port))
        self._listener.listen(64)
        self._run(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def add(self, port: int) -> None:
        """Connect one more participant."""
        self.taken.setdefault(port, 0)
        with self._lock:
            self._behind.append(port)

    def remove(self, port: int) -> None:
        """New connections do not go there any more; those that are there go on."""
        with self._lock:
            self._behind.remove(port)

    def _run(self, work: object, *given: socket.socket) -> None:
        thread = threading.Thread(target=work, args=given, name=f"switch {self._port}")  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            if select.select([self._listener], [], [], 0.1)[0]:
                caller, _ = self._listener.accept()
                called = self._dial()
                if called is None:
                    caller.close()
                else:
                    self._run(self._forward, caller, called)

    def _dial(self) -> socket.socket | None:
        for _ in tuple(self._behind):
            with self._lock:
                port = self._behind.pop(0)
                self._behind.append(port)
            with contextlib.suppress(OSError):
                called = socket.create_connection((LOOPBACK, port), timeout=1)
                self.taken[port] += 1
                return called
            if not self._patient:
                break
        return None

    def _forward(self, one: socket.socket, other: socket.socket) -> None:
        """Forward bytes in both directions until either side ends."""
        with one, other, contextlib.suppress(OSError):
            while not self._stopped.is_set():
                for ready in select.select([one, other], [], [], 0.1)[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    (other if ready is one else one).sendall(data)
