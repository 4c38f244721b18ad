"""Give one process a view of the network that a kill closes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from simulator.network.memory import Listener, MemoryTransport, Network, ProtocolT
from simulator.network.request_tap import RequestTap, TappedConnection


class KillableNetwork(Network):
    """A view of `whole`. After `die` it sends and receives nothing.

    `tap` is called for every outgoing request.
    """

    def __init__(self, whole: Network, tap: RequestTap | None = None) -> None:
        super().__init__()
        self._whole = whole
        self._tap = tap
        self._ends: list[asyncio.Transport] = []
        self._listeners: list[Listener] = []
        self.dead = False

    def listen(self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]) -> Listener:
        """Serve at an address of the whole network until `die`."""
        listener = self._whole.listen(host, port, protocol_factory)
        self._listeners.append(listener)
        return listener

    async def dial(
        self, protocol_factory: Callable[[], ProtocolT], host: str, port: int
    ) -> tuple[asyncio.Transport, ProtocolT]:
        """Connect through the whole network. Raises ConnectionRefusedError once dead."""
        if self.dead:
            raise ConnectionRefusedError(f"{host}:{port}: the process is dead")
        transport, protocol = await self._whole.dial(protocol_factory, host, port)
        self._ends.append(transport)
        if self._tap is not None and isinstance(transport, MemoryTransport):
            transport.gate = TappedConnection(transport, host, self._tap)
        if self.dead:
            transport.abort()
        return transport, protocol

    def die(self) -> None:
        """Close everything; bytes already sent still arrive."""
        if self.dead:
            return
        self.dead = True
        for listener in self._listeners:
            listener.close()
            self._whole.cut(listener.host, listener.port)
        for end in self._ends:
            end.close()  # The kernel of a killed process still sends what it took, and a FIN behind it.
