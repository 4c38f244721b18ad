"""List every operation of the extender on Slurm and Kubernetes, from the code, and observe them while they run.

An operation is a command of a machine, by the name of its class (`SubmitJob`), or a method of a port (`Pods.bind`):
some are called without a command.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, Protocol, get_args

import pytest

from extender.domain import ports
from extender.domain.commands import Announce, Command
from extender.domain.nodes.machine import DrainNode, NodeCommand, ResumeNode
from extender.engine.allocation_checker import AllocationChecker
from extender.engine.command_executor import CommandExecutor
from extender.kube.announce import EventWriter
from extender.kube.checkpoints import CheckpointLease
from extender.kube.devices import DeviceInformers
from extender.kube.lease import KubeNodeLeases, LeaseLock
from extender.kube.node_writes import NodeWriter
from extender.kube.owners import OwnerReader
from extender.kube.pod_group_status import PodGroupStatusWriter
from extender.kube.pod_reads import PodReader
from extender.kube.resource_claims import ResourceClaimWriter
from extender.kube.writes import PodWriter
from extender.slurm.external_nodes import Registrar
from extender.slurm.foreign_pods import SlurmrestdForeignPods
from extender.slurm.jobs import SlurmrestdJobs
from extender.slurm.nodes import SlurmrestdNodes

COMMANDS: tuple[str, ...] = tuple(one.__name__ for one in (*get_args(Command), *get_args(NodeCommand)))

ADAPTERS: Mapping[type, type] = {
    ports.SlurmJobs: SlurmrestdJobs,
    ports.SlurmForeignPods: SlurmrestdForeignPods,
    ports.SlurmNodes: SlurmrestdNodes,
    ports.ExternalNodes: Registrar,
    ports.Pods: PodWriter,
    ports.PodReads: PodReader,
    ports.KubeNodes: NodeWriter,
    ports.NodeLeases: KubeNodeLeases,
    ports.CheckpointStore: CheckpointLease,
    ports.Owners: OwnerReader,
    ports.PodGroupStatuses: PodGroupStatusWriter,
    ports.ResourceClaims: ResourceClaimWriter,
    ports.DeviceCache: DeviceInformers,
}
"""By port. A port without a coroutine method sends no requests."""

WATCH = "DeviceCache.passed"
"""An operation that waits for a watch, and sends nothing."""

READS = frozenset(
    {
        "SlurmJobs.read",
        "SlurmJobs.states",
        "SlurmNodes.snapshot",
        "SlurmNodes.node",
        "PodReads.read",
        "NodeLeases.renewed",
        "CheckpointStore.read",
        "Owners.controllers",
        "ResourceClaims.read",
        WATCH,
        "ReadJob",
    }
)
"""Operations that change nothing. `probe` is a DELETE, with signal 0."""

ALSO = {"SlurmNodes.drain": DrainNode.__name__, "SlurmNodes.resume": ResumeNode.__name__}
"""Port methods that only one command calls, and that are named for it."""

CHECK = "AllocationChecker.recheck"
"""An operation without a request: the engine decides whether a granted node may be handed out."""

LEASE = "LeaseLock.write"
"""A write of a replica to its own Lease: it acquires, renews or releases the Lease."""

CURRENT_OPERATIONS: ContextVar[tuple[str, ...]] = ContextVar("CURRENT_OPERATIONS", default=())
"""The operations that the running task executes, the outermost first."""


def waiting_methods(port: type) -> list[str]:
    """Return the methods of a protocol that wait for an answer."""
    return [name for name, one in vars(port).items() if inspect.iscoroutinefunction(one)]


READ_FOR_USERS = {ports.SlurmShares}
"""Ports that a user's request alone reads, and nothing depends on."""

NOT_SIMULATED = frozenset({ports.JobRecords})
"""Ports whose partner the simulated Slurm lacks: it has no slurmdbd, and `tests/e2e/test_accounting.py` has one."""


def waiting_ports() -> list[type]:
    """Return every other port that has such a method."""
    return [
        one
        for one in vars(ports).values()
        if isinstance(one, type)
        and Protocol in one.__bases__
        and waiting_methods(one)
        and one not in READ_FOR_USERS | NOT_SIMULATED
    ]


OPERATIONS: tuple[str, ...] = (
    *COMMANDS,
    CHECK,
    *(f"{port.__name__}.{name}" for port in waiting_ports() for name in waiting_methods(port)),
)


class OperationObserver(Protocol):
    """Receive a call at each step of an operation."""

    async def on_start(self, operation: str) -> None:
        """Handle an operation that has sent no request yet."""

    async def on_answer(self, operation: str) -> None:
        """Handle an operation whose answer arrived and is not yet recorded."""

    def on_decision(self, operation: str) -> None:
        """Handle an operation that sends no request, just before it runs."""


def observe_operations(patch: pytest.MonkeyPatch, observer: Callable[[], OperationObserver | None]) -> None:
    """Call the observer at each step of every operation, and keep the running ones in `CURRENT_OPERATIONS`."""
    for port, adapter in ADAPTERS.items():
        for name in waiting_methods(port):
            operation = f"{port.__name__}.{name}"
            names = (operation, ALSO[operation]) if operation in ALSO else (operation,)
            patch.setattr(adapter, name, _notified(getattr(adapter, name), names, observer))
    patch.setattr(LeaseLock, "write", _notified(LeaseLock.write, (LEASE,), observer))
    patch.setattr(EventWriter, "_create", _notified(EventWriter._create, (Announce.__name__,), observer))
    for name in ("to_slurm", "to_kubernetes"):
        patch.setattr(CommandExecutor, name, _recorded(getattr(CommandExecutor, name), observer))
    patch.setattr(AllocationChecker, "recheck", _observed_decision(AllocationChecker.recheck, CHECK, observer))


Waits = Callable[..., Coroutine[Any, Any, Any]]


def _notified(method: Waits, names: tuple[str, ...], observer: Callable[[], OperationObserver | None]) -> Waits:
    @functools.wraps(method)
    async def called(*args: Any, **options: Any) -> Any:
        one, outer = observer(), CURRENT_OPERATIONS.get()
        if one is None:
            return await method(*args, **options)
        before = CURRENT_OPERATIONS.set((*outer, *names))
        try:
            for name in names:
                await one.on_start(name)
            answer = await method(*args, **options)
            for name in (*names, *outer):
                await one.on_answer(name)
            return answer
        finally:
            CURRENT_OPERATIONS.reset(before)

    return called


def _recorded(method: Waits, observer: Callable[[], OperationObserver | None]) -> Waits:
    """Wrap the execution of a command. It ends with the last of its calls, before its outcome is recorded."""

    @functools.wraps(method)
    async def executed(executor: CommandExecutor, key: str, command: Command) -> None:
        one = observer()
        before = CURRENT_OPERATIONS.set((type(command).__name__,))
        try:
            if one is not None:
                await one.on_start(type(command).__name__)
            await method(executor, key, command)
        finally:
            CURRENT_OPERATIONS.reset(before)

    return executed


def _observed_decision(
    method: Callable[..., Any], name: str, observer: Callable[[], OperationObserver | None]
) -> Callable[..., Any]:
    @functools.wraps(method)
    def decided(*args: Any) -> Any:
        if (one := observer()) is not None:
            one.on_decision(name)
        return method(*args)

    return decided
