"""A typed asynchronous client for slurmrestd, Slurm's HTTP interface: one model for all API versions v0.0.40 to
v0.0.45.

It finds the highest version that both sides support (Slurm 23.11.6 to 26.05), and again after an upgrade of Slurm. It
repeats only requests that may be repeated, distinguishes refusals from outages and from unknown outcomes, and never
treats a missing answer as an empty one.

    python -c '
    import asyncio
    from slurmclient import JobDescription, MintedToken, SlurmClient

    async def main():
        token = MintedToken("/etc/slurm/jwt.key", user="root")
        async with SlurmClient(["http://127.0.0.1:6820"], token) as slurm:
            made = await slurm.submit(JobDescription(
                name="hello", script="#!/bin/sh\\nsleep 60\\n", environment=("PATH=/usr/bin:/bin",),
                current_working_directory="/tmp", memory_per_node_mb=100, time_limit_minutes=5))
            print(slurm.release, made.job_id, await slurm.job_states([made.job_id]))
            print(await slurm.cancel(made.job_id))

    asyncio.run(main())'

This package contains only what holds for every program that uses slurmrestd; it imports nothing of its users. `client`
is the public interface. `endpoints` defines each call, `wire` translates the JSON of each version, `session` executes
calls. `transport`, `connection_pool` and `connection` exchange HTTP. `classification` maps errors, `retry` decides what
is repeated.
"""

from slurmclient.auth import MintedToken, StaticToken, TokenFile, TokenSource
from slurmclient.capabilities import API_VERSIONS, OLDEST_RELEASE, Capabilities, Release
from slurmclient.client import SlurmClient
from slurmclient.connection_pool import Dial
from slurmclient.errors import (
    AuthenticationError,
    CapacityError,
    ConnectError,
    ControllerUnavailableError,
    ControllerUnreachedError,
    InvalidRequestError,
    NotFoundError,
    OutcomeUnknownError,
    ProtocolError,
    QueueFullError,
    RefusedError,
    SlurmError,
    TransportError,
    UnsupportedError,
)
from slurmclient.exchange import Reply, Request, Sender
from slurmclient.models.accounting import Association, JobRecord, Share
from slurmclient.models.answer import CancelStatus, FoundJob, SlurmWarning, SubmitResult
from slurmclient.models.controller import ControllerPing, Diagnostics, License, Ping, SlurmConf
from slurmclient.models.description import CLEARABLE, JobDescription, Shared
from slurmclient.models.job import ExitCode, Job, NodeAllocation, ResourceNode
from slurmclient.models.listing import JobStates, Listing, UnreadableEntry
from slurmclient.models.node import NewNode, Node, NodeUpdate
from slurmclient.models.partition import Partition, Reservation
from slurmclient.models.state import JobState, NodeState
from slurmclient.number import INFINITE, Infinite
from slurmclient.retry import RetryPolicy
from slurmclient.session import CallOptions
from slurmclient.tls import TlsOptions
from slurmclient.transport import Timeouts
from slurmclient.tres import Gres

__all__ = [
    "API_VERSIONS",
    "CLEARABLE",
    "INFINITE",
    "OLDEST_RELEASE",
    "Association",
    "AuthenticationError",
    "CallOptions",
    "CancelStatus",
    "Capabilities",
    "CapacityError",
    "ConnectError",
    "ControllerPing",
    "ControllerUnavailableError",
    "ControllerUnreachedError",
    "Diagnostics",
    "Dial",
    "ExitCode",
    "FoundJob",
    "Gres",
    "Infinite",
    "InvalidRequestError",
    "Job",
    "JobDescription",
    "JobRecord",
    "JobState",
    "JobStates",
    "License",
    "Listing",
    "MintedToken",
    "NewNode",
    "Node",
    "NodeAllocation",
    "NodeState",
    "NodeUpdate",
    "NotFoundError",
    "OutcomeUnknownError",
    "Partition",
    "Ping",
    "ProtocolError",
    "QueueFullError",
    "RefusedError",
    "Release",
    "Reply",
    "Request",
    "Reservation",
    "ResourceNode",
    "RetryPolicy",
    "Sender",
    "Share",
    "Shared",
    "SlurmClient",
    "SlurmConf",
    "SlurmError",
    "SlurmWarning",
    "StaticToken",
    "SubmitResult",
    "Timeouts",
    "TlsOptions",
    "TokenFile",
    "TokenSource",
    "TransportError",
    "UnreadableEntry",
    "UnsupportedError",
]
