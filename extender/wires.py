"""Where the process touches the machine: time, randomness, and the byte streams to its three partners.

Everything else receives these. A test hands in others and the whole process runs in memory, on virtual time.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from extender.config.document import ExtenderConfiguration
from extender.config.slurm import Slurm
from extender.http.server import Listen
from extender.kube.connection import Connection, connect
from slurmclient import MintedToken, SlurmClient, StaticToken, Timeouts, TlsOptions, TokenFile
from slurmclient.auth import TokenSource


class LoopClock:
    """The event loop's clock, and the wall clock beside it."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall

    def now(self) -> float:
        """Seconds of the running loop."""
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        """Seconds since the epoch."""
        return self._wall()


@dataclass(frozen=True, slots=True)
class Wires:
    """The streams and sources of one process. `listen` is `None` for real sockets."""

    kubernetes: Connection
    slurm: SlurmClient
    clock: LoopClock = field(default_factory=LoopClock)
    rng: random.Random = field(default_factory=random.SystemRandom)
    fresh_key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    """Signs hook tokens where the site gives no key."""

    listen: Listen | None = None

    async def close(self) -> None:
        """Close what was opened."""
        await self.slurm.aclose()
        await self.kubernetes.close()


async def real_wires(config: ExtenderConfiguration) -> Wires:
    """Sockets, as configured. Raises `CredentialsError` where Kubernetes' credentials cannot be read."""
    kube = config.kubernetes
    kubernetes = await connect(kube.kubeconfig, kube.context, connections=kube.connections, environ=os.environ)
    slurm = config.slurm
    client = SlurmClient(
        list(slurm.addresses),
        _token(slurm),
        user=slurm.user,
        tls=TlsOptions(slurm.tls.ca_file, slurm.tls.certificate_file, slurm.tls.key_file),
        timeouts=Timeouts(slurm.timeouts.connect, slurm.timeouts.read, slurm.timeouts.write),
        connections=slurm.connections,
    )
    return Wires(kubernetes, client)


def _token(slurm: Slurm) -> TokenSource:
    if slurm.token is not None:
        return StaticToken(slurm.token.get_secret_value())
    if slurm.token_file is not None:
        return TokenFile(slurm.token_file)
    if slurm.jwt_key_file is None:
        raise ValueError("slurm: no token is configured")
    return MintedToken(slurm.jwt_key_file, slurm.user)
