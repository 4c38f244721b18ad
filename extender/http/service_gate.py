"""Answer calls while the process does not know its cluster yet, and hold the services that answer afterwards.

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
    """Hold the services in force: stand-ins that ask callers to retry at first, those of the process after `activate`.

    `trouble` says what the process waits for until then. `certificates` returns checks of the served certificates.
    """

    def __init__(self, config: ExtenderConfiguration, certificates: Callable[[], Sequence[Check]] = tuple) -> None:
        self._scheduling: SchedulingService = _NoScheduling(config.scheduler.name)
        self._hooks: HooksService = _NoHooks()
        self._debug: DebugService = _NoDebug(config, self)
        self._certificates = certificates
        self._warm: Callable[[], bool] = lambda: False
        self.trouble = "its identity is being read"

    def expose_debug(self, debug: DebugService, *, warm: Callable[[], bool]) -> None:
        """Serve the debug pages from now on; calls are not answered yet.

        `warm` returns whether a replica that does not lead knows all that it needs to.
        """
        self._debug, self._warm = debug, warm

    def activate(self, scheduling: SchedulingService, hooks: HooksService, debug: DebugService) -> None:
        """Answer calls with these services from now on."""
        self._scheduling, self._hooks, self._debug = scheduling, hooks, debug

    @property
    def scheduling(self) -> SchedulingService:
        """Return what answers kube-scheduler now."""
        return self._scheduling

    @property
    def hooks(self) -> HooksService:
        """Return what answers the scripts on Slurm's nodes now."""
        return self._hooks

    @property
    def debug(self) -> DebugService:
        """Return what shows the state to operators now."""
        return self._debug

    def checks(self) -> Sequence[Check]:
        """Return the health of the process, and of the certificates of its listeners."""
        return [*self._debug.checks(), *self._certificates()]

    @property
    def active(self) -> bool:
        """Return whether calls are answered here."""
        return not isinstance(self._scheduling, _NoScheduling)

    @property
    def useful(self) -> bool:
        """Return the state for `/readyz`: this replica answers calls, or knows the one that does."""
        return self._scheduling.ready if self.active else self._warm()


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
