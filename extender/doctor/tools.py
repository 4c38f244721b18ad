"""The clients and the clock of one run of the doctor."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx

from extender.assembly.io_context import LoopClock, token_source
from extender.config.document import ExtenderConfiguration
from extender.domain.ports import Clock
from extender.kube.connection import IN_A_POD, ApiConnection, CredentialsError, connect
from slurmclient import RetryPolicy, SlurmClient, StaticToken, Timeouts, TlsOptions
from slurmclient.auth import TokenSource

REQUEST_S = 30.0
"""Seconds for one request; slurmrestd needs 20 s to report that slurmctld is down."""

ONCE = RetryPolicy(deadline_s=REQUEST_S, attempts=1)
"""No retries: the doctor reports the first failure."""

NO_TOKEN = StaticToken("none")
"""slurmrestd answers a ping with any token (`slurmrestd/rest_auth`)."""

SlurmOf = Callable[[str, TokenSource], SlurmClient]


@dataclass(frozen=True, slots=True)
class Tools:
    """The clients. `kubernetes` is `None` if there are no credentials, for the reason `no_kubernetes`."""

    token: TokenSource
    slurm: SlurmOf
    clock: Clock
    kubernetes: ApiConnection | None = None
    no_kubernetes: str = ""
    http: httpx.AsyncBaseTransport | None = None
    """Transport to the extender's own addresses; `None`: sockets."""

    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_a_pod(self) -> bool:
        """Return whether the doctor runs in a Pod, so that a file that is not here is missing."""
        return bool(self.environ.get(IN_A_POD))

    async def close(self) -> None:
        """Close the connections."""
        if self.kubernetes is not None:
            await self.kubernetes.close()


async def real_tools(config: ExtenderConfiguration) -> Tools:
    """Open sockets and read files as configured."""
    slurm = config.slurm

    def client(address: str, token: TokenSource) -> SlurmClient:
        return SlurmClient(
            [address],
            token,
            user=slurm.user,
            tls=TlsOptions(slurm.tls.ca_file, slurm.tls.certificate_file, slurm.tls.key_file),
            timeouts=Timeouts(slurm.timeouts.connect, slurm.timeouts.read, slurm.timeouts.write),
            retry=ONCE,
            connections=2,
        )

    token, clock = token_source(slurm), LoopClock()
    try:
        kubernetes = await connect(
            config.kubernetes.kubeconfig, config.kubernetes.context, connections=8, environ=os.environ
        )
    except (CredentialsError, OSError) as error:  # a folder that may not be searched for the kubeconfig
        return Tools(token, client, clock, no_kubernetes=str(error), environ=os.environ)
    return Tools(token, client, clock, kubernetes, environ=os.environ)
