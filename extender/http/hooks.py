"""Serve the hooks for scripts on Slurm's side. They authenticate with `Authorization: Bearer TOKEN`.

| status | means |
|---|---|
| 200 | done; for a teardown: no Pod of this job runs any more |
| 202 | taken note of; for a teardown: a Pod still runs, ask again; for a clearance: a Pod outlives its job there |
| 204 | for a clearance: no Pod outlives its job there, but a job that was named may still have Pods |
| 400 | the request is malformed |
| 401 | no token was shown where one is needed |
| 403 | the token is not the one of this job, nor the site's; for a teardown by a job's script: repeat the call |
| 404 | nothing is known of it; or the token is another job's, whose workload has no Pod on a node |
| 409 | for a drain: the job runs, and Slurm has not announced its end |
| 503 | the answer took too long; the next poll reports the same |
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from typing import Annotated

import structlog
from fastapi import APIRouter, Header, Path, Query
from fastapi.responses import JSONResponse, Response

from extender.http.service import CurrentServices, HookAnswer
from extender.observability.metrics.registry import Metrics

_log = structlog.get_logger(__name__)

PREFIX = "/hooks"

SAY_EVERY_S = 10.0
"""Seconds between two log lines about refused calls: any client may call."""

MOST_JOBS = 2**32 - 1
"""slurmctld's job ids have 32 bits (`slurm.h`)."""

SLACK_S = 1.0
"""What an answer may take beyond the wait that was asked for."""

DRAIN_S = 2.0
"""Seconds that slurmctld may take to accept a drain, before the caller is answered that it did not."""

LOCK_S = 3.0
"""What slurmctld may take to say what a job is, and the API server to take the taint."""

READ_S = 1.0
"""Seconds that slurmctld may take to report the jobs on a node, before PrologSlurmctld is answered "unknown"."""

MOST_NAMED = 8000
"""Characters of a list of jobs: some hundred placeholders on one node."""

NODE_OR_NOTHING = r"^([A-Za-z0-9][A-Za-z0-9_.-]*)?$"
JobId = Annotated[int, Path(ge=1, le=MOST_JOBS, description="Slurm's job id, `$SLURM_JOB_ID`.")]
SlurmNode = Annotated[str, Path(max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
NodeJob = Annotated[int, Query(ge=1, le=MOST_JOBS, description="Slurm's job id, `$SLURM_JOB_ID`.")]
Authorization = Annotated[str, Header(max_length=4096, description="`Bearer TOKEN`")]


def router(services: CurrentServices, metrics: Metrics, longest_wait_s: float) -> APIRouter:
    """Return the routes. No wait is longer than `longest_wait_s`, whatever is asked for."""
    hooks = _Hooks(services, metrics, longest_wait_s)
    routes = APIRouter(prefix=PREFIX, tags=["hooks"])
    for path, hook in (
        ("/jobs/{job_id}/started", hooks.started),
        ("/jobs/{job_id}/teardown", hooks.teardown),
        ("/nodes/{slurm_node}/drain", hooks.drain),
        ("/nodes/{slurm_node}/clear", hooks.clear),
        ("/nodes/{slurm_node}/empty", hooks.empty),
        ("/nodes/{slurm_node}/lock", hooks.lock),
        ("/nodes/{slurm_node}/unlock", hooks.unlock),
    ):
        routes.add_api_route(path, hook, methods=["POST"], operation_id=hook.__name__)
    return routes


class _Hooks:
    """Read the arguments of each hook, bound the time for its answer, and turn the answer into HTTP."""

    def __init__(self, services: CurrentServices, metrics: Metrics, longest_wait_s: float) -> None:
        self._services = services
        self._metrics = metrics
        self._longest_wait_s = longest_wait_s
        self._refusals = _Refusals()

    async def started(self, job_id: JobId, authorization: Authorization = "") -> Response:
        """Record that the script of the placeholder job runs."""
        token = bearer(authorization)
        return await self._reply("started", token, self._services.hooks.started(job_id, token))

    async def teardown(
        self,
        job_id: JobId,
        wait: Annotated[float, Query(ge=0, le=86400, description="Seconds to wait for the Pods.")] = 0.0,
        node: Annotated[str, Query(max_length=255, pattern=NODE_OR_NOTHING)] = "",
        authorization: Authorization = "",
    ) -> Response:
        """Wait for the Pods of a job that is about to end, or ends.

        `node` is the node whose Epilog calls: with the site key, evidence that its fence works.

        With the site key and without a wait the call is EpilogSlurmctld's report that the job is over: its nodes are
        drained before Slurm is asked, until the Pods are gone or the job turns out to live.
        """
        token = bearer(authorization)
        wait_s = min(wait, self._longest_wait_s) if math.isfinite(wait) else 0.0
        return await self._reply("teardown", token, self._services.hooks.teardown(job_id, token, wait_s, node), wait_s)

    async def drain(
        self,
        slurm_node: SlurmNode,
        reason: Annotated[str, Query(max_length=200)] = "",
        authorization: Authorization = "",
    ) -> Response:
        """Keep Slurm off this node until the Pods there whose job is over, or about to be, are gone.

        202: slurmctld has accepted the drain, or had another; 503 if it has not yet.

        The site key serves for every node, a job's token for those of the job. With the site key 200 and `held` false
        mean that there is no such Pod, and why: neither an idle node nor one whose Pods' jobs run is drained, since
        nothing would lift that. A site that wants those drained asks Slurm, with a reason that has another prefix.

        `reason` counts with the site key alone. The reason of the drain quotes 60 characters of it behind the
        extender's own sentence; blanks and unusual characters become `_`.
        """
        token = bearer(authorization)
        return await self._reply("drain", token, self._services.hooks.drain(slurm_node, token, reason), DRAIN_S)

    async def clear(
        self,
        slurm_node: SlurmNode,
        wait: Annotated[float, Query(ge=0, le=86400, description="Seconds to wait for the Pods.")] = 0.0,
        jobs: Annotated[str, Query(max_length=MOST_NAMED, pattern=r"^([0-9]{1,10}(,[0-9]{1,10})*)?$")] = "",
        limit: Annotated[int, Query(ge=0, le=2**31, description="PrologEpilogTimeout, in seconds.")] = 0,
        authorization: Authorization = "",
    ) -> Response:
        """Hold PrologSlurmctld of a job on this node until no Pod there outlives its job; the site key is needed.

        `jobs` are those of which a note says that a Pod may be there, with commas. 200: none of them has a Pod any
        more, the notes may go; 204: there are Pods whose jobs run; 503: Slurm does not say how some job is.
        """
        token = bearer(authorization)
        wait_s = min(wait, self._longest_wait_s) if math.isfinite(wait) else 0.0
        named = [int(job) for job in jobs.split(",") if job]
        answering = self._services.hooks.clear(slurm_node, token, wait_s, named, limit)
        return await self._reply("clear", token, answering, wait_s + READ_S)

    async def empty(self, slurm_node: SlurmNode, authorization: Authorization = "") -> Response:
        """Record an administrator's statement that no removed Pod runs there any more; the site key is needed.

        The node is no longer held for such Pods. If the statement is wrong, Slurm starts jobs beside them.
        """
        token = bearer(authorization)
        return await self._reply("empty", token, self._services.hooks.empty(slurm_node, token))

    async def lock(self, slurm_node: SlurmNode, job: NodeJob, authorization: Authorization = "") -> Response:
        """Lock the Node for the Prolog of a job on this node; the site key is needed.

        200: the Node is locked, or `locked` is false and `why` says why it need not be; 503: ask again.
        """
        token = bearer(authorization)
        return await self._reply("lock", token, self._services.hooks.lock(slurm_node, token, job), LOCK_S)

    async def unlock(self, slurm_node: SlurmNode, job: NodeJob, authorization: Authorization = "") -> Response:
        """Unlock the Node for the Epilog of the last such job on this node; the site key is needed."""
        token = bearer(authorization)
        return await self._reply("unlock", token, self._services.hooks.unlock(slurm_node, token, job))

    async def _reply(self, hook: str, token: str, answering: Awaitable[HookAnswer], wait_s: float = 0.0) -> Response:
        limit_s = wait_s + SLACK_S
        try:
            async with asyncio.timeout(limit_s):
                answer = await answering
        except TimeoutError:
            text = f"No answer within {limit_s:g} s. Ignore this error: the next poll reports the same."
            answer = HookAnswer(503, {"error": text})
        if answer.status == 403 and not token:
            answer = HookAnswer(401, {"error": "a token is needed: Authorization: Bearer TOKEN"})
        self._metrics.hooked(hook, answer.status)
        if answer.status in {401, 403}:
            self._refusals.note(hook, answer)
        if answer.status == 204:
            return Response(status_code=204)
        headers = {"WWW-Authenticate": "Bearer"} if answer.status == 401 else None
        return JSONResponse(dict(answer.body), answer.status, headers)


class _Refusals:
    """Calls that did not prove themselves."""

    def __init__(self) -> None:
        self._said_at: float | None = None
        self._unsaid = 0

    def note(self, hook: str, answer: HookAnswer) -> None:
        """Log this one, unless another was logged just now; `more` counts those between."""
        now = asyncio.get_running_loop().time()
        if self._said_at is not None and now - self._said_at < SAY_EVERY_S:
            self._unsaid += 1
            return
        _log.warning("hook_rejected", hook=hook, status=answer.status, more=self._unsaid, answer=dict(answer.body))
        self._said_at, self._unsaid = now, 0


def bearer(authorization: str) -> str:
    """Return the token of an Authorization header (RFC 6750), "" where there is none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
