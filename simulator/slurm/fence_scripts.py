"""Act as the PrologSlurmctld and Epilogs of a site, without bash: the same calls at the same moments as `fence.sh`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from extender.domain.jobs.identity import decode_mark
from extender.domain.nodes.drain_reasons import drainer, reason, with_earlier_reason
from extender.domain.wellknown import DRAIN_PREFIX
from simulator.slurm.batch_script import PostHook
from simulator.slurm.job_lifecycle import Scripts
from simulator.slurm.records import SimJob
from simulator.slurm.slurmctld import Slurmctld

MARK = '{"slurm-extender":1,'
"""How the mark of a placeholder begins. In `extra` it is a hint, in `admin_comment` the proof."""

HOLD_S, LAST_S = 8.0, 3.0
REQUEST_S = 10
"""Seconds that one request may take."""


@dataclass
class FenceScripts:
    """Every script of one site. `post` calls hooks, `controller` is what `scontrol` talks to."""

    hooks: str
    key: str
    post: PostHook
    controller: Callable[[], Slurmctld]
    only_on: frozenset[str] | None = None
    """Nodes whose Epilog is the script, where slurmctld's machine and the other nodes have none; `None`: everywhere."""

    notes: set[tuple[str, int]] = field(default_factory=set)
    """Node and job."""

    @property
    def everywhere(self) -> bool:
        """Return whether the script is installed in each of its places."""
        return bool(self.key) and self.only_on is None

    def covers(self, node: str) -> bool:
        """Return whether the script holds this node."""
        return bool(self.key) and (self.only_on is None or node in self.only_on)

    @property
    def scripts(self) -> Scripts:
        """Return the scripts that slurm.conf names."""
        if self.only_on is not None:
            return Scripts(None, self._epilog)
        return Scripts(None, self._epilog, self._prolog_slurmctld, self._epilog_slurmctld)

    async def _epilog(self, job: SimJob, node: str) -> int:
        if MARK not in job.extra or not self.covers(node):
            return 0
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HOLD_S - LAST_S
        while (left := int(deadline - loop.time())) > 0:
            status = await self._post_hook(f"jobs/{job.job_id}/teardown?wait={left}&node={node}")
            if status in {200, 404}:
                return 0
            if status != 202:
                await asyncio.sleep(1.0)
        if await self._post_hook(f"nodes/{node}/drain") not in {200, 202} and not self._allocates_nothing(node):
            match self._proven(job.job_id):
                case False:
                    return 0
                case None:
                    return 1
            mark = decode_mark(job.admin_comment)
            owner = drainer(mark.cluster, mark.scheduler) if mark is not None else ""
            said = f"job {job.job_id} ended, and the extender did not answer its Epilog"
            now = self.controller().nodes[node]
            earlier_reason = now.reason if now.down and not now.reason.startswith(DRAIN_PREFIX) else ""
            self.controller().drain(node, with_earlier_reason(reason(owner, [said]), earlier_reason))
        return 0

    def _allocates_nothing(self, node: str) -> bool:
        known = self.controller().nodes[node]
        return known.drained or known.failing

    async def _epilog_slurmctld(self, job: SimJob) -> int:
        if MARK in job.extra:
            await self._post_hook(f"jobs/{job.job_id}/teardown?wait=0")
            if not await self._settle(job.job_id):
                self.controller().timers.start(self._until_settled(job.job_id), f"notes of job {job.job_id}")
        return 0

    async def _prolog_slurmctld(self, job: SimJob) -> int:
        own = {(node, job.job_id) for node in job.nodes}
        again = own & self.notes
        if MARK in job.extra and self._proven(job.job_id) is not False:
            self.notes |= own
        for node in job.nodes:
            await self._wait_until_clear(job, node, own - again)
        return 0

    async def _wait_until_clear(self, job: SimJob, node: str, own: set[tuple[str, int]]) -> None:
        while others := sorted(note for note in self.notes if note[0] == node and note not in own):
            named = ",".join(str(job_id) for _, job_id in others)
            status = await self._post_hook(f"nodes/{node}/clear?wait={REQUEST_S}&jobs={named}")
            if status == 200:
                self.notes -= {note for note in others if note[1] != job.job_id}
            if status in {200, 204} or 400 <= status < 500:
                return
            if status != 202:
                if all(self._runs_for_the_first_time(job_id) for _, job_id in others):
                    return
                await asyncio.sleep(2.0)
            if not job.running:
                return

    def _proven(self, job_id: int) -> bool | None:
        """Return whether the job is a placeholder; `None`: slurmctld does not say."""
        job = self.controller().job(job_id)
        return None if job is None else MARK in job.admin_comment

    def _runs_for_the_first_time(self, job_id: int) -> bool:
        job = self.controller().job(job_id)
        return job is not None and job.running and not job.restart_count

    async def _settle(self, job_id: int, wait_s: int = 0) -> bool:
        left = False
        for node, noted in sorted(self.notes):
            if noted != job_id:
                continue
            if await self._post_hook(f"nodes/{node}/clear?wait={wait_s}&jobs={job_id}") == 200:
                self.notes.discard((node, job_id))
            else:
                left = True
        return not left

    async def _until_settled(self, job_id: int) -> None:
        settled = False
        while not settled:
            settled = await self._settle(job_id, REQUEST_S)
            await asyncio.sleep(5.0)

    async def _post_hook(self, path: str) -> int:
        return await self.post(f"{self.hooks}/hooks/{path}", self.key)
