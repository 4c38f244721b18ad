"""Everything that the extender does to its partners, as a list made from the code, and who is at it at a given moment.

A deed is a command of a machine, by the name of its class (`SubmitJob`), or a method of a port (`Pods.bind`): some are
called without a command.
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
"""By port. One without a method that waits for somebody asks nobody anything."""

WATCH = "DeviceCache.passed"
"""A deed that waits for a watch, and sends nothing."""

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
"""What changes nothing. `probe` is a DELETE, with signal 0."""

ALSO = {"SlurmNodes.drain": DrainNode.__name__, "SlurmNodes.resume": ResumeNode.__name__}
"""Port methods that only one command calls, and that are named for it."""

CHECK = "AllocationChecker.recheck"
"""A deed that asks nobody: the engine decides whether a granted node may be handed out."""

LEASE = "LeaseLock.write"
"""What a replica writes for itself, and for nobody's Pod or job: it takes its Lease, renews it, releases it."""

DOING: ContextVar[tuple[str, ...]] = ContextVar("DOING", default=())
"""The deeds that the running task is at, the outermost first."""


def waiting_methods(port: type) -> list[str]:
    """The methods of a protocol that wait for an answer."""
    return [name for name, one in vars(port).items() if inspect.iscoroutinefunction(one)]


ASKED_BY_USERS = {ports.SlurmShares}
"""Ports that a user's request alone reads, and nothing depends on."""

NOT_SIMULATED = frozenset({ports.JobRecords})
"""Ports whose partner the simulated Slurm lacks: it has no slurmdbd, and `tests/e2e/test_accounting.py` has one."""


def ports_that_ask() -> list[type]:
    """Every other port that has such a method."""
    return [
        one
        for one in vars(ports).values()
        if isinstance(one, type)
        and Protocol in one.__bases__
        and waiting_methods(one)
        and one not in ASKED_BY_USERS | NOT_SIMULATED
    ]


DEEDS: tuple[str, ...] = (
    *COMMANDS,
    CHECK,
    *(f"{port.__name__}.{name}" for port in ports_that_ask() for name in waiting_methods(port)),
)


class Witness(Protocol):
    """Told of deeds."""

    async def begins(self, deed: str) -> None:
        """Nothing of it has been sent yet."""

    async def ends(self, deed: str) -> None:
        """Its answer is there, and nobody has been told."""

    def thinks(self, deed: str) -> None:
        """One that asks nobody is carried out now."""


def name_deeds(patch: pytest.MonkeyPatch, witness: Callable[[], Witness | None]) -> None:
    """Let every deed be told to the witness, and stand in `DOING` while it lasts."""
    for port, adapter in ADAPTERS.items():
        for name in waiting_methods(port):
            deed = f"{port.__name__}.{name}"
            names = (deed, ALSO[deed]) if deed in ALSO else (deed,)
            patch.setattr(adapter, name, _notified(getattr(adapter, name), names, witness))
    patch.setattr(LeaseLock, "write", _notified(LeaseLock.write, (LEASE,), witness))
    patch.setattr(EventWriter, "_create", _notified(EventWriter._create, (Announce.__name__,), witness))
    for name in ("to_slurm", "to_kubernetes"):
        patch.setattr(CommandExecutor, name, _recorded(getattr(CommandExecutor, name), witness))
    patch.setattr(AllocationChecker, "recheck", _thought(AllocationChecker.recheck, CHECK, witness))


Waits = Callable[..., Coroutine[Any, Any, Any]]


def _notified(method: Waits, names: tuple[str, ...], witness: Callable[[], Witness | None]) -> Waits:
    @functools.wraps(method)
    async def called(*args: Any, **options: Any) -> Any:
        one, outer = witness(), DOING.get()
        if one is None:
            return await method(*args, **options)
        before = DOING.set((*outer, *names))
        try:
            for name in names:
                await one.begins(name)
            answer = await method(*args, **options)
            for name in (*names, *outer):
                await one.ends(name)
            return answer
        finally:
            DOING.reset(before)

    return called


def _recorded(method: Waits, witness: Callable[[], Witness | None]) -> Waits:
    """A command ends with the last of the calls that it makes, before what came of it is recorded."""

    @functools.wraps(method)
    async def executed(executor: CommandExecutor, key: str, command: Command) -> None:
        one = witness()
        before = DOING.set((type(command).__name__,))
        try:
            if one is not None:
                await one.begins(type(command).__name__)
            await method(executor, key, command)
        finally:
            DOING.reset(before)

    return executed


def _thought(method: Callable[..., Any], name: str, witness: Callable[[], Witness | None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def thought(*args: Any) -> Any:
        if (one := witness()) is not None:
            one.thinks(name)
        return method(*args)

    return thought
