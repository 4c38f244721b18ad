"""Give the process its time, its randomness and its byte streams: the only place that touches the machine.

Everything else receives these. A test hands in others and the whole process runs in memory, on virtual time.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import httpx

from extender.assembly.in_flight_writes import InFlightWrites
from extender.assembly.process_lock import ProcessLock, SocketLock
from extender.assembly.write_gate import WriteGate
from extender.config.document import ExtenderConfiguration
from extender.config.slurm import Slurm
from extender.kube.connection import ApiConnection, connect
from extender.kube.write_check import WriteCheck
from slurmclient import MintedToken, SlurmClient, StaticToken, Timeouts, TlsOptions, TokenFile
from slurmclient.auth import TokenSource

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Closable(Protocol):
    """Something that accepts connections until it is closed."""

    def close(self) -> None:
        """Accept no more; connections that exist live on."""
        ...


class Listen(Protocol):
    """A source of connections instead of sockets; `simulator.network.memory.Network.listen` is one."""

    def __call__(self, host: str, port: int, protocol_factory: ProtocolFactory, /) -> Closable:
        """Make a protocol for each connection to this address. Raises OSError where it is taken."""
        ...


class LoopClock:
    """The event loop's clock, and the wall clock beside it."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall

    def now(self) -> float:
        """Return the seconds of the running loop."""
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        """Return the seconds since the epoch."""
        return self._wall()


def running_time() -> float:
    """Return the loop's clock."""
    return asyncio.get_running_loop().time()


def boot_time() -> float:
    """Return seconds of a clock that also counts while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


IN_TIME = 0.8
"""The share of the lease time after which the kernel drops unsent data; no replica writes in the rest."""


@dataclass(frozen=True, slots=True)
class IoContext:
    """The streams and sources of one process. `listen` is `None` for real sockets."""

    kubernetes: ApiConnection
    slurm: SlurmClient
    clock: LoopClock = field(default_factory=LoopClock)
    rng: random.Random = field(default_factory=random.SystemRandom)
    fresh_key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    """Signs hook tokens where the site gives no key."""

    listen: Listen | None = None
    write_gate: WriteGate = field(default_factory=lambda: WriteGate(running_time))
    """What `kubernetes` and `slurm` ask before they write."""

    in_flight_writes: InFlightWrites = field(default_factory=InFlightWrites)
    """What `kubernetes` and `slurm` have sent to change something, and was not answered yet."""

    elapsed: Callable[[], float] = running_time
    """The clock of leader election."""

    host: str = "localhost"
    """The name of the machine or Pod."""

    process_lock: ProcessLock | None = None
    """Shows to the next process in this place that this one is dead; `None`: there is no such lock."""

    peers: httpx.AsyncBaseTransport | None = None
    """How other replicas are reached; `None` for real sockets."""

    async def close(self) -> None:
        """Close what was opened; what is not answered yet is given up."""
        await self.in_flight_writes.close()
        await self.slurm.aclose()
        await self.kubernetes.close()
        if self.process_lock is not None:
            self.process_lock.close()


async def real_io_context(config: ExtenderConfiguration) -> IoContext:
    """Return sockets, as configured. Raises `CredentialsError` where Kubernetes' credentials cannot be read."""
    kube = config.kubernetes
    write_gate, in_flight_writes = WriteGate(boot_time), InFlightWrites()
    election = config.leader_election
    acknowledged_s = election.timing.margin * IN_TIME if election.enabled else None
    kubernetes = await connect(
        kube.kubeconfig,
        kube.context,
        connections=kube.connections,
        environ=os.environ,
        write_check=WriteCheck(
            write_gate.may_write, lambda: write_gate.answer_within_s, acknowledged_s, in_flight_writes.shield
        ),
    )
    slurm = config.slurm
    client = SlurmClient(
        list(slurm.addresses),
        token_source(slurm),
        user=slurm.user,
        tls=TlsOptions(slurm.tls.ca_file, slurm.tls.certificate_file, slurm.tls.key_file),
        timeouts=Timeouts(slurm.timeouts.connect, slurm.timeouts.read, slurm.timeouts.write, acknowledged_s),
        connections=slurm.connections,
        may_write=write_gate.may_write,
        shield=in_flight_writes.shield,
    )
    purpose = f"{election.namespace}/{election.lease_name} {config.http.bind}"
    return IoContext(
        kubernetes,
        client,
        write_gate=write_gate,
        in_flight_writes=in_flight_writes,
        elapsed=boot_time,
        host=socket.gethostname(),
        process_lock=SocketLock(purpose, boot_time) if election.enabled else None,
    )


def token_source(slurm: Slurm) -> TokenSource:
    """Return the source of the token. Raises ValueError if none is configured."""
    if slurm.token is not None:
        return StaticToken(slurm.token.get_secret_value())
    if slurm.token_file is not None:
        return TokenFile(slurm.token_file)
    if slurm.jwt_key_file is None:
        raise ValueError("slurm: no token is configured")
    return MintedToken(slurm.jwt_key_file, slurm.user)
