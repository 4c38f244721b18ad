"""A hook service over many bound workloads, which counts how often something reads all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from extender.controllers.nodes.clearance import Clearance
from extender.domain.cluster import SlurmSnapshot
from extender.domain.events import MemberRef
from extender.domain.jobs.extender_identity import JobIdentity
from extender.domain.nodes.mapping import NodeMap
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.states import BoundState, PlaceholderJob
from extender.engine.engine import Engine
from extender.engine.engine_context import EngineState
from extender.engine.placeholder_index import PlaceholderIndex
from extender.http.hook_service import HookService
from extender.http.pod_drain_waiters import PodDrainWaiters
from extender.runtime.event_bus import EventBus

KEY = b"key"
IDENTITY = JobIdentity("cluster", "slurm", 1)


class CountedIndex(PlaceholderIndex):
    """Placeholders; `walks` counts what reads all of them, or all of a state."""

    def __init__(self, known: Iterator[Placeholder]) -> None:
        super().__init__()
        self.walks = 0
        for p in known:
            self.put(p)

    @property
    def all(self) -> Mapping[str, Placeholder]:
        self.walks += 1
        return super().all

    def in_state(self, *states: State) -> list[Placeholder]:
        self.walks += 1
        return super().in_state(*states)


class CountedMembers(tuple[Member, ...]):
    """Members of a gang; `passes` counts how often something iterates over them."""

    passes: int

    def __iter__(self) -> Iterator[Member]:
        self.passes = getattr(self, "passes", 0) + 1
        return super().__iter__()


def bound_pods(count: int) -> Iterator[Placeholder]:
    """Yield workloads of one Pod each, whose jobs are 1, 2, ... on the Slurm nodes `s1`, `s2`, ..."""
    for number in range(1, count + 1):
        key, node = f"u{number}", f"n{number}"
        job = PlaceholderJob(number, slurm_nodes=(f"s{number}",))
        member = Member(MemberRef(key, "ns", f"p{number}"), node=node, job_id=number)
        yield Placeholder(key, BoundState(job, ((key, node),)), members=(member,), attempt=1)


def bound_gang(count: int, job_id: int) -> Placeholder:
    """Return a gang of so many members, each on a Slurm node of its own."""
    uids = [f"g{number}" for number in range(count)]
    job = PlaceholderJob(job_id, slurm_nodes=tuple(f"s-{uid}" for uid in uids), slots=tuple(f"s-{uid}" for uid in uids))
    members = CountedMembers(
        Member(MemberRef(uid, "ns", uid), slot=slot, node=f"n-{uid}", job_id=job_id) for slot, uid in enumerate(uids)
    )
    return Placeholder("gang", BoundState(job, tuple((uid, f"n-{uid}") for uid in uids)), members=members, attempt=1)


@dataclass
class Effects:
    """The effects of calls: jobs to read later, jobs read at once, and nodes that were held."""

    requested: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    held: list[str] = field(default_factory=list)


def hook_service(
    index: PlaceholderIndex, effects: Effects | None = None, *, site_key: bytes | None = None, **more: Any
) -> HookService:
    """Return a service that knows these placeholders, and no nodes."""
    done = effects or Effects()
    snapshot = SimpleNamespace(node_map=NodeMap(), slurm=SlurmSnapshot())
    engine = cast(Engine, SimpleNamespace(placeholders=index, snapshot=snapshot))
    reads = SimpleNamespace(doubt=lambda _job_id: None)
    state = cast(EngineState, SimpleNamespace(identity=IDENTITY, job_reads=reads))

    async def read(job_id: int) -> bool:
        done.read.append(job_id)
        return True

    async def wait_until_drained(_node: str) -> None:
        return

    now: Callable[[], float] = lambda: 0.0  # noqa: E731
    given: dict[str, Any] = {
        "now": now,
        "ready": lambda: True,
        "request_read": done.requested.append,
        "read": read,
        "hold": lambda node, _p, _reason: done.held.append(node),
        "wait_until_drained": wait_until_drained,
        "clearance": cast(Clearance, None),
        **more,
    }
    return HookService(engine, state, PodDrainWaiters(index, EventBus()), [KEY], site_key, **given)
