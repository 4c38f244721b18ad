"""Answer calls while the process does not know its cluster yet, and pass them on afterwards.

Until the process is assembled every caller is asked to retry. `/livez` succeeds: otherwise the kubelet would end a
process that only waits for the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from extender.config.document import ExtenderConfiguration
from extender.domain.events import MemberRef
from extender.domain.verdict import UNREADY_TEXT, FilterVerdict, Pass, Unready
from extender.domain.views import PodView
from extender.http.service import Check, ConsoleQuery, DebugService, HookAnswer, HooksService, SchedulingService

UNREADY = HookAnswer(503, {"error": "the extender has not read the cluster's state yet; retry"})


class ServiceGate:
    """Implement the services of `http.service`: by itself at first, by those of the process after `activate`.

    `trouble` says what the process waits for until then. `certificates` returns checks of the served certificates.
    """

    def __init__(self, config: ExtenderConfiguration, certificates: Callable[[], Sequence[Check]] = tuple) -> None:
        self.scheduling: SchedulingService = _NoScheduling(config.scheduler.name)
        self.hooks: HooksService = _NoHooks()
        self.debug: DebugService = _NoDebug(config, self)
        self.trouble = "its identity is being read"
        self.warm: Callable[[], bool] = lambda: False
        """Whether a replica that does not lead knows all that it needs to."""

        self._certificates = certificates

    def expose_debug(self, debug: DebugService, *, warm: Callable[[], bool]) -> None:
        """Serve the debug pages from now on; calls are not answered yet."""
        self.debug, self.warm = debug, warm

    def activate(self, scheduling: SchedulingService, hooks: HooksService, debug: DebugService) -> None:
        """Answer calls with these services from now on."""
        self.scheduling, self.hooks, self.debug = scheduling, hooks, debug

    @property
    def ready(self) -> bool:
        """Answer as `SchedulingService`."""
        return self.scheduling.ready

    @property
    def staffed(self) -> bool:
        """Return whether calls are answered here."""
        return not isinstance(self.scheduling, _NoScheduling)

    @property
    def useful(self) -> bool:
        """Return the state for `/readyz`: this replica answers calls, or knows the one that does."""
        return self.ready if self.staffed else self.warm()

    def offer(self, pod: PodView, nodes: Sequence[str], full: bool) -> FilterVerdict:
        """Answer as `SchedulingService`."""
        return self.scheduling.offer(pod, nodes, full)

    async def bind(self, pod: MemberRef, node: str) -> str:
        """Answer as `SchedulingService`."""
        return await self.scheduling.bind(pod, node)

    async def started(self, job_id: int, token: str) -> HookAnswer:
        """Answer as `HooksService`."""
        return await self.hooks.started(job_id, token)

    async def teardown(self, job_id: int, token: str, wait_s: float, slurm_node: str = "") -> HookAnswer:
        """Answer as `HooksService`."""
        return await self.hooks.teardown(job_id, token, wait_s, slurm_node)

    async def drain(self, slurm_node: str, token: str, reason: str) -> HookAnswer:
        """Answer as `HooksService`."""
        return await self.hooks.drain(slurm_node, token, reason)

    async def clear(self, slurm_node: str, token: str, wait_s: float, jobs: Sequence[int], limit_s: int) -> HookAnswer:
        """Answer as `HooksService`."""
        return await self.hooks.clear(slurm_node, token, wait_s, jobs, limit_s)

    async def empty(self, slurm_node: str, token: str) -> HookAnswer:
        """Answer as `HooksService`."""
        return await self.hooks.empty(slurm_node, token)

    async def lock(self, slurm_node: str, token: str, job_id: int) -> HookAnswer:
        """Answer as `HooksService`."""
        return await self.hooks.lock(slurm_node, token, job_id)

    async def unlock(self, slurm_node: str, token: str, job_id: int) -> HookAnswer:
        """Answer as `HooksService`."""
        return await self.hooks.unlock(slurm_node, token, job_id)

    @property
    def leader_hint(self) -> str:
        """Answer as `DebugService`."""
        return self.debug.leader_hint

    def placeholders(self) -> Iterable[Mapping[str, Any]]:
        """Answer as `DebugService`."""
        return self.debug.placeholders()

    def placeholder(self, uid: str) -> Mapping[str, Any] | None:
        """Answer as `DebugService`."""
        return self.debug.placeholder(uid)

    def gangs(self, namespace: str) -> Iterable[Mapping[str, Any]]:
        """Answer as `DebugService`."""
        return self.debug.gangs(namespace)

    def gang(self, uid: str) -> Mapping[str, Any] | None:
        """Answer as `DebugService`."""
        return self.debug.gang(uid)

    def nodes(self) -> Mapping[str, Any]:
        """Answer as `DebugService`."""
        return self.debug.nodes()

    def orphans(self) -> Mapping[str, Any]:
        """Answer as `DebugService`."""
        return self.debug.orphans()

    async def queue(self) -> Mapping[str, Any]:
        """Answer as `DebugService`."""
        return await self.debug.queue()

    async def shares(self, accounts: Sequence[str]) -> Mapping[str, Any]:
        """Answer as `DebugService`."""
        return await self.debug.shares(accounts)

    async def console(self, query: ConsoleQuery) -> Mapping[str, Any]:
        """Answer as `DebugService`."""
        return await self.debug.console(query)

    def console_pod(self, uid: str) -> Mapping[str, Any] | None:
        """Answer as `DebugService`."""
        return self.debug.console_pod(uid)

    def configuration(self) -> Mapping[str, Any]:
        """Answer as `DebugService`."""
        return self.debug.configuration()

    def checks(self) -> Sequence[Check]:
        """Answer as `DebugService`, with the checks of the listeners' certificates."""
        return [*self.debug.checks(), *self._certificates()]


class _NoScheduling:
    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler

    ready = False

    def offer(self, pod: PodView, nodes: Sequence[str], full: bool) -> FilterVerdict:
        return Unready(UNREADY_TEXT) if pod.scheduler_name == self._scheduler else Pass(nodes)

    async def bind(self, pod: MemberRef, node: str) -> str:
        return UNREADY_TEXT


class _NoHooks:
    async def started(self, job_id: int, token: str) -> HookAnswer:
        return UNREADY

    async def teardown(self, job_id: int, token: str, wait_s: float, slurm_node: str = "") -> HookAnswer:
        return UNREADY

    async def drain(self, slurm_node: str, token: str, reason: str) -> HookAnswer:
        return UNREADY

    async def clear(self, slurm_node: str, token: str, wait_s: float, jobs: Sequence[int], limit_s: int) -> HookAnswer:
        return UNREADY

    async def empty(self, slurm_node: str, token: str) -> HookAnswer:
        return UNREADY

    async def lock(self, slurm_node: str, token: str, job_id: int) -> HookAnswer:
        return UNREADY

    async def unlock(self, slurm_node: str, token: str, job_id: int) -> HookAnswer:
        return UNREADY


class _NoDebug:
    def __init__(self, config: ExtenderConfiguration, service_gate: ServiceGate) -> None:
        self._config = config
        self._service_gate = service_gate

    leader_hint = ""

    def placeholders(self) -> Iterable[Mapping[str, Any]]:
        return []

    def placeholder(self, uid: str) -> Mapping[str, Any] | None:
        return None

    def gangs(self, namespace: str) -> Iterable[Mapping[str, Any]]:
        return []

    def gang(self, uid: str) -> Mapping[str, Any] | None:
        return None

    def nodes(self) -> Mapping[str, Any]:
        return {}

    def orphans(self) -> Mapping[str, Any]:
        return {}

    async def queue(self) -> Mapping[str, Any]:
        return {"partitions": []}

    async def shares(self, accounts: Sequence[str]) -> Mapping[str, Any]:
        del accounts
        return {"shares": [], "leftOut": 0, "limitsUnknown": self._service_gate.trouble}

    async def console(self, query: ConsoleQuery) -> Mapping[str, Any]:
        del query
        return {"error": self._service_gate.trouble, "workloads": [], "nodes": [], "partitions": []}

    def console_pod(self, uid: str) -> Mapping[str, Any] | None:
        return None

    def configuration(self) -> Mapping[str, Any]:
        return self._config.model_dump(mode="json", by_alias=True)

    def checks(self) -> Sequence[Check]:
        return [Check("cluster", False, self._service_gate.trouble)]
