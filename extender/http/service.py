"""Define what the routes need of the rest of the process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from extender.domain.events import MemberRef
from extender.domain.verdict import FilterVerdict
from extender.domain.views import PodView


class SchedulingService(Protocol):
    """The answers for kube-scheduler."""

    @property
    def ready(self) -> bool:
        """Return whether everything that was in the cluster at the start is known."""
        ...

    def offer(self, pod: PodView, nodes: Sequence[str], full: bool) -> FilterVerdict:
        """Answer from memory. `full`: `nodes` are all that passed kube-scheduler's filters, not one try-out."""
        ...

    async def bind(self, pod: MemberRef, node: str) -> str:
        """Return "" once the Pod is bound there, else a sentence for kube-scheduler's log."""
        ...


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """An HTTP status and a JSON object."""

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)


class HooksService(Protocol):
    """The answers for scripts on Slurm's nodes. `token` is "" if the call has none."""

    async def started(self, job_id: int, token: str) -> HookAnswer:
        """Handle the start of a placeholder's script."""
        ...

    async def teardown(self, job_id: int, token: str, wait_s: float, slurm_node: str = "") -> HookAnswer:
        """Answer when the Pods of a job that is about to end are gone, or after `wait_s` seconds that they are not.

        `slurm_node`: the node whose Epilog calls.
        """
        ...

    async def drain(self, slurm_node: str, token: str, reason: str) -> HookAnswer:
        """Keep Slurm off this node until the Pods there are gone."""
        ...

    async def clear(self, slurm_node: str, token: str, wait_s: float, jobs: Sequence[int], limit_s: int) -> HookAnswer:
        """Answer when no Pod on this node outlives its job, or after `wait_s` seconds that one does.

        `limit_s` is for how long Slurm lets the caller wait, as far as that knows; 0: it does not.
        """
        ...

    async def empty(self, slurm_node: str, token: str) -> HookAnswer:
        """Record an administrator's statement that no removed Pod runs on this node any more."""
        ...

    async def lock(self, slurm_node: str, token: str, job_id: int) -> HookAnswer:
        """Answer when the Node is locked for a job that begins on it, unless the job is a placeholder."""
        ...

    async def unlock(self, slurm_node: str, token: str, job_id: int) -> HookAnswer:
        """Record that the job is over on this node."""
        ...


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `?verbose`. `required` checks decide the answer, the others only inform."""

    name: str
    ok: bool
    text: str = ""
    required: bool = True


@dataclass(frozen=True, slots=True)
class ConsoleQuery:
    """The rows that a console asks for. `search` is a part of a Pod's name, job id, partition, account or node."""

    search: str = ""


class DebugService(Protocol):
    """The state for operators; JSON-ready values."""

    @property
    def leader_hint(self) -> str:
        """Return why this process knows no placeholder, and which one does; "": it knows them."""
        ...

    def placeholders(self) -> Iterable[Mapping[str, Any]]:
        """Return every placeholder, short; each is put together when it is taken."""
        ...

    def placeholder(self, uid: str) -> Mapping[str, Any] | None:
        """Return the placeholder of this Pod with its history."""
        ...

    def gangs(self, namespace: str) -> Iterable[Mapping[str, Any]]:
        """Return gangs, short, a limited number of them; "": those of all namespaces."""
        ...

    def gang(self, uid: str) -> Mapping[str, Any] | None:
        """Return the gang of this Pod with its members."""
        ...

    def nodes(self) -> Mapping[str, Any]:
        """Return both sides' nodes, their mapping, its problems, and holds."""
        ...

    def orphans(self) -> Mapping[str, Any]:
        """Return jobs without a Pod and Pods without a job."""
        ...

    async def queue(self) -> Mapping[str, Any]:
        """Return the partitions, and the Pods that wait for each by reason."""
        ...

    async def shares(self, accounts: Sequence[str]) -> Mapping[str, Any]:
        """Return fair shares and limits of these accounts, of all without any. Raises `PortError`."""
        ...

    async def console(self, query: ConsoleQuery) -> Mapping[str, Any]:
        """Return a limited number of rows for the console."""
        ...

    def console_pod(self, uid: str) -> Mapping[str, Any] | None:
        """Return the timeline of this Pod, if the console may show it."""
        ...

    def configuration(self) -> Mapping[str, Any]:
        """Return the effective configuration, secrets hidden."""
        ...

    def checks(self) -> Sequence[Check]:
        """Return the health checks."""
        ...


class CurrentServices(Protocol):
    """The services in force now. They change when this process begins to answer, so routes read them at each call."""

    @property
    def scheduling(self) -> SchedulingService:
        """Return what answers kube-scheduler."""
        ...

    @property
    def hooks(self) -> HooksService:
        """Return what answers the scripts on Slurm's nodes."""
        ...

    @property
    def debug(self) -> DebugService:
        """Return what shows the state to operators."""
        ...

    def checks(self) -> Sequence[Check]:
        """Return the health of the process and its listeners."""
        ...
