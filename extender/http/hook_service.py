"""Answer the hook calls of scripts on Slurm nodes; implements `http.service.HooksService`.

A call that proves itself may wait for Pods and drain the nodes of its job; one that does not causes one read of the
job and nothing else. Polls alone suffice; hooks only reduce the delay.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from extender.controllers.nodes.clearance import Clearance, NodeVerdict
from extender.controllers.nodes.native_jobs import JobKind, NativeJobs
from extender.domain.jobs.identity import mark_of_hook_token
from extender.domain.jobs.job import Mark
from extender.domain.nodes.fence_evidence import FenceScript
from extender.domain.nodes.member_nodes import is_on
from extender.domain.placeholder import Placeholder, State
from extender.engine.engine import Engine
from extender.engine.engine_context import EngineState
from extender.http.pod_drain_waiters import PodDrainWaiters
from extender.http.service import HookAnswer
from extender.http.service_gate import UNREADY

T = TypeVar("T")

LONGEST_WAIT = 600.0
"""Seconds; a client that wants to wait longer asks again."""

ATTEMPTS_TRIED = 32
"""After a start the attempt that made a job is not known before the job has been found: so many are accepted."""


UNPROVEN_EVERY_S = 5.0
"""Seconds between two reads of one job for calls that do not prove themselves."""

UNPROVEN_A_SECOND = 10
"""Such reads in a second, of all jobs together."""


class UnprovenReads:
    """Bounds what calls without a proof may make be read of Slurm: scripts that prove themselves are not among them."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._read: OrderedDict[int, float] = OrderedDict()
        """When each job was read last for such a call; of the last few seconds alone."""

    def may_read(self, job_id: int) -> bool:
        """Return whether this job may be read for one more unproven call."""
        now = self._now()
        while self._read and now - next(iter(self._read.values())) >= UNPROVEN_EVERY_S:
            self._read.popitem(last=False)
        lately = sum(now - at < 1.0 for at in self._read.values())
        if job_id in self._read or lately >= UNPROVEN_A_SECOND:
            return False
        self._read[job_id] = now
        return True


class HookService:
    """Answers hook calls.

    `ready`: every Pod that was there at the start is known. `request_read` makes a job be read now;
    `hold_nodes_of_ended_job` drains its nodes before that. `read` reads a job and returns whether Slurm answered.
    `hold` drains a Slurm node for a workload, and quotes a reason of the site; `wait_until_drained` returns once
    slurmctld starts nothing new there. `clearance` returns whether a node may start a job. `fence_called` takes note of
    a call of the fence script for one of the jobs named: evidence that the script is installed for that node.
    `release_removed_pods` records an administrator's statement that a node is empty, and returns the removed Pods for
    which it was held. `native` knows the jobs that lock Nodes. `wait_until_marked` returns once the Node of a Slurm
    node has its marks, and whether it is locked then. `keys` are those of the jobs' tokens. `site_key` is the key that
    the site's Epilog and PrologSlurmctld show; `None`: no such key is configured.
    """

    def __init__(
        self,
        engine: Engine,
        state: EngineState,
        drain_waiters: PodDrainWaiters,
        keys: Sequence[bytes],
        site_key: bytes | None,
        *,
        now: Callable[[], float],
        ready: Callable[[], bool],
        request_read: Callable[[int], None],
        read: Callable[[int], Awaitable[bool]],
        hold_nodes_of_ended_job: Callable[[int], None] = lambda _job_id: None,
        hold: Callable[[str, Placeholder, str], None],
        wait_until_drained: Callable[[str], Awaitable[None]],
        clearance: Clearance,
        release_removed_pods: Callable[[str], list[str]] = lambda _node: [],
        fence_called: Callable[[FenceScript, str, Iterable[int]], None] = lambda _script, _node, _jobs: None,
        native: NativeJobs | None = None,
        wait_until_marked: Callable[[str], Coroutine[Any, Any, bool]] | None = None,
    ) -> None:
        self._engine = engine
        self._state = state
        self._drain_waiters = drain_waiters
        self._keys = keys
        self._site_key = site_key
        self._unproven = UnprovenReads(now)
        self._ready = ready
        self._request_read = request_read
        self._read = read
        self._hold_nodes_of_ended_job = hold_nodes_of_ended_job
        self._hold = hold
        self._release_removed_pods = release_removed_pods
        self._wait_until_drained = wait_until_drained
        self._clearance = clearance
        self._fence_called = fence_called
        self._native = native
        self._wait_until_marked = wait_until_marked
        self._waits: set[asyncio.Future[Any]] = set()

    def close(self) -> None:
        """Answer every waiting call: the process is about to end."""
        for wait in self._waits:
            wait.cancel()

    async def started(self, job_id: int, token: str) -> HookAnswer:
        """Read the job of a placeholder's script that runs, unless the job is known to run."""
        p = self._engine.placeholders.by_job(job_id)
        proven = self._proven(job_id, token)
        if p is None or p.state not in {State.GRANTED, State.BOUND}:
            self._read_now(job_id, proven=proven)
        return HookAnswer(202, {"job": job_id, "proven": proven})

    async def teardown(self, job_id: int, token: str, wait_s: float, slurm_node: str = "") -> HookAnswer:
        """Read the job now; then, for who may know, wait until its Pods are gone."""
        if not self._ready():
            return UNREADY
        if slurm_node and self._is_site(token):
            self._fence_called(FenceScript.EPILOG, slurm_node, (job_id,))
        proven = self._proven(job_id, token)
        self._read_now(job_id, proven=proven)
        p = self._engine.placeholders.by_job(job_id)
        if p is None or not proven:
            return self._not_of_caller(job_id, token)
        self._state.job_reads.doubt(job_id)  # the answer may be that no Pod is there, and the script ends
        if wait_s <= 0 and self._is_site(token):
            self._hold_nodes_of_ended_job(job_id)  # EpilogSlurmctld holds nothing: the node may be given away now
        gone = (
            await self._waited(self._drain_waiters.wait_drained(job_id, min(max(wait_s, 0.0), LONGEST_WAIT))) or False
        )
        p = self._engine.placeholders.by_job(job_id) or p
        pods = [] if gone else [m.ref.full_name for m in p.members if m.placed]
        return HookAnswer(200 if gone else 202, {"job": job_id, "gone": gone, "placeholder": True, "pods": pods})

    def _not_of_caller(self, job_id: int, token: str) -> HookAnswer:
        """Answer a teardown of a job that is unknown, or that the caller does not prove to be its own.

        A job's token is answered the same for every such job: its holder must not learn which are placeholder jobs.
        The answer depends on the workload of the token alone. A job that ends with its Pod may be forgotten before its
        script asks, and this script must not wait; a script whose workload has Pods repeats the call.
        """
        if self._engine.placeholders.placed_without_job:
            return UNREADY  # whose job it is has been asked of Slurm
        own = self._mark_of(token)
        if self._is_site(token) or (own is not None and not self._has_pods(own.workload)):
            return HookAnswer(404, {"job": job_id, "gone": True, "placeholder": False})
        why = "The token is neither the token of this job nor the site key (hooks.siteKeyFile)."
        return HookAnswer(403, {"job": job_id, "error": why})

    def _has_pods(self, workload: str) -> bool:
        """Return whether Pods of this workload are on a node, or may be."""
        p = self._engine.placeholders.get(workload)
        return p is not None and p.placed

    async def drain(self, slurm_node: str, token: str, reason: str) -> HookAnswer:
        """Drain a node while Pods whose job ended are on it: a job's token for its own nodes, the site key for any.

        Neither drains a node for a Pod whose job runs, which may take days, nor one without Pods of this scheduler: the
        drain is lifted when its Pods are gone, so there must be some, and they must be ending. The owner of a job can
        read its token, so only the site's `reason` is quoted: an extender that starts reads facts from the reason of a
        drain. A site that wants other drains asks Slurm, with a reason of its own.
        """
        if not self._ready():
            return UNREADY
        site = self._is_site(token)
        node_map = self._engine.snapshot.node_map
        near = self._engine.placeholders.all.values() if site else self._of_token(token)
        allowed = [p for p in near if p.placed and is_on(p, slurm_node, node_map)]
        if not allowed:
            return self._no_pod_on(slurm_node) if site else _not_of_a_job_on(slurm_node)
        ended = await asyncio.gather(*(self._ended(p) for p in allowed))
        # If its Pods have gone meanwhile, no later event would lift the drain.
        outliving = [p for p in allowed if self._outlives(p.key)]
        if not outliving:
            if None in ended:
                return HookAnswer(
                    503, {"node": slurm_node, "error": "Slurm has not confirmed the state of the job; retry"}
                )
            if any(ended):
                return _not_held(slurm_node, "the Pods there whose jobs are over have left")
            why = "the jobs of the Pods there run, and Slurm has not announced their end"
            return _not_held(slurm_node, why) if site else HookAnswer(409, {"node": slurm_node, "error": why})
        for p in outliving:
            self._hold(slurm_node, p, reason if site else "")
        await self._wait_until_drained(slurm_node)  # an Epilog that is answered lets the node go
        return HookAnswer(202, {"node": slurm_node, "held": True})

    async def clear(self, slurm_node: str, token: str, wait_s: float, jobs: Sequence[int], limit_s: int) -> HookAnswer:
        """Wait until no Pod there outlives its job: only then may a next job start."""
        if not self._ready():
            return UNREADY
        if not self._is_site(token):
            return _not_the_site(slurm_node)
        self._clearance.limited(limit_s)
        self._fence_called(FenceScript.PROLOG_SLURMCTLD, slurm_node, jobs)
        if not self._engine.snapshot.node_map.known:
            return UNREADY  # nor is it known which Pod is on which node of Slurm
        standing = await self._waited(self._clearance.of(slurm_node, min(max(wait_s, 0.0), LONGEST_WAIT)))
        if standing is None:
            return UNREADY
        match standing.answer:
            case NodeVerdict.UNKNOWN:
                return HookAnswer(503, {"node": slurm_node, "error": f"{standing.answer}; retry"})
            case NodeVerdict.OUTLIVED:
                return HookAnswer(202, {"node": slurm_node, "clear": False, "why": list(standing.why)})
            case NodeVerdict.CLEAR:
                kept = any(self._clearance.may_have_pods(job_id) for job_id in jobs)
                return HookAnswer(204 if kept else 200, {"node": slurm_node, "clear": True})

    async def empty(self, slurm_node: str, token: str) -> HookAnswer:
        """Accept the site key alone: the owner of a job knows nothing of other users' Pods."""
        if not self._ready():
            return UNREADY
        if not self._is_site(token):
            return _not_the_site(slurm_node)
        return HookAnswer(200, {"node": slurm_node, "pods": self._release_removed_pods(slurm_node)})

    async def lock(self, slurm_node: str, token: str, job_id: int) -> HookAnswer:
        """Lock the Node for a job that is no placeholder, and say so when the API server has taken it."""
        if not self._ready() or not self._engine.snapshot.node_map.known:
            return UNREADY
        if not self._is_site(token):
            return _not_the_site(slurm_node)
        if self._native is None or self._wait_until_marked is None or not self._native.enabled:
            return _not_locked(slurm_node, "nodes.nativeJobTaint is not set")
        if self._engine.snapshot.node_map.partner(slurm_node) is None:
            return _not_locked(slurm_node, "no Node maps to this Slurm node")
        match await self._native.begins(job_id, slurm_node):
            case JobKind.UNREAD:
                return HookAnswer(
                    503, {"node": slurm_node, "error": f"Job {job_id} could not be read from Slurm; retry."}
                )
            case JobKind.NATIVE:
                locked = await self._waited(self._wait_until_marked(slurm_node))
                if locked is None:
                    return UNREADY
                if locked:
                    return HookAnswer(200, {"node": slurm_node, "locked": True})
                return _not_locked(slurm_node, "its slurmd does not tolerate the taint")
            case JobKind.UNKNOWN:
                return _not_locked(slurm_node, f"Slurm has no job {job_id}.")
            case JobKind.PLACEHOLDER:
                return _not_locked(slurm_node, f"Job {job_id} is a placeholder job.")

    async def unlock(self, slurm_node: str, token: str, job_id: int) -> HookAnswer:
        """Record that a job is over on this node; the last one that is unlocks the Node, in its own time."""
        if not self._ready():
            return UNREADY
        if not self._is_site(token):
            return _not_the_site(slurm_node)
        if self._native is not None:
            self._native.ends(job_id, slurm_node)
        return HookAnswer(200, {"node": slurm_node, "job": job_id})

    def _no_pod_on(self, slurm_node: str) -> HookAnswer:
        slurm = self._engine.snapshot.slurm
        if not slurm.known:
            return UNREADY  # nor is it known which Pod is on which node of Slurm
        if slurm_node not in slurm.nodes:
            return HookAnswer(404, {"node": slurm_node, "error": "Slurm has no node of this name"})
        return _not_held(slurm_node, "no Pod of this scheduler is on it")

    def _read_now(self, job_id: int, *, proven: bool) -> None:
        # Any client may call: the reads that wait while Slurm is unreachable are bounded by the number of jobs.
        if self._engine.placeholders.by_job(job_id) is not None and (proven or self._unproven.may_read(job_id)):
            self._request_read(job_id)

    async def _waited(self, what: Coroutine[Any, Any, T]) -> T | None:
        """Return the result; `None` if this process ends before."""
        wait = asyncio.ensure_future(what)
        self._waits.add(wait)
        try:
            await asyncio.wait({wait})
            return None if wait.cancelled() else wait.result()
        finally:
            wait.cancel()
            self._waits.discard(wait)

    async def _ended(self, p: Placeholder) -> bool | None:
        """Return whether the job of these Pods has ended or is about to; `None`: Slurm does not answer."""
        if p.state is not State.LOST:
            if p.job_id is None:
                return None if p.state is State.UNSURE else False
            if not await self._read(p.job_id):
                return None
        return self._outlives(p.key)

    def _outlives(self, key: str) -> bool:
        """Return whether Pods of this workload still exist although their job is over or about to be."""
        p = self._engine.placeholders.get(key)
        return p is not None and p.state is State.LOST and p.placed

    def _is_site(self, token: str) -> bool:
        return self._site_key is not None and hmac.compare_digest(self._site_key, token.encode(errors="replace"))

    def _mark_of(self, token: str) -> Mark | None:
        """Return the mark of a job's token, also of one that is not tracked; `None`: it is no job's token."""
        if not token:
            return None
        author = self._state.identity
        return mark_of_hook_token(self._keys, author.cluster, author.scheduler, token)

    def _of_token(self, token: str) -> list[Placeholder]:
        """Return the workloads that name the job of this token. Nothing is read for a token that proves nothing."""
        mark = self._mark_of(token)
        own = None if mark is None else self._engine.placeholders.get(mark.workload)
        if own is None or not own.job_id or not self._proven(own.job_id, token):
            return []
        return [p for p in self._engine.placeholders.all_by_job(own.job_id) if p.job_id == own.job_id]

    def _proven(self, job_id: int, token: str) -> bool:
        if self._is_site(token):
            return True
        mark, p = self._mark_of(token), self._engine.placeholders.by_job(job_id)
        return mark is not None and p is not None and mark.workload == p.key and mark.attempt in _attempts(p)


def _attempts(p: Placeholder) -> Collection[int]:
    """Return the attempts that may have made a live job of this workload: the last, and one whose end is not seen."""
    return {p.attempt, p.attempt - 1} if p.attempt else range(1, ATTEMPTS_TRIED + 1)


def _not_held(slurm_node: str, why: str) -> HookAnswer:
    """Answer without an error: Slurm drains the node of a failed Epilog, and that drain would never be lifted."""
    return HookAnswer(200, {"node": slurm_node, "held": False, "why": why})


def _not_locked(slurm_node: str, why: str) -> HookAnswer:
    return HookAnswer(200, {"node": slurm_node, "locked": False, "why": why})


def _not_of_a_job_on(slurm_node: str) -> HookAnswer:
    return HookAnswer(403, {"node": slurm_node, "error": f"The token belongs to no job on Slurm node {slurm_node}."})


def _not_the_site(slurm_node: str) -> HookAnswer:
    why = "The token is not the site key; check KEY_FILE on the node and hooks.siteKeyFile."
    return HookAnswer(403, {"node": slurm_node, "error": why})
