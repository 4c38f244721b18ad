"""Submit a job that calls the hooks from a node, and wait for its end. No job is left behind.

The doctor may be stopped at any moment, and the answer to a submission may be lost. The job therefore has a unique
name, by which it is found, and a deadline, at which Slurm ends it in any case (sbatch(1) `--deadline`).
"""

from __future__ import annotations

import asyncio
import secrets

import httpx

from extender.config.document import ExtenderConfiguration
from extender.doctor.facts import ProbedFence, ProbeResult
from extender.doctor.gather.process import TIMEOUT_S, local_address
from extender.doctor.tools import Tools
from extender.domain.nodes.fence_evidence import FenceScript
from extender.domain.ports import Clock, PortError
from extender.domain.translation.annotation_table import ACCOUNT, PARTITION, QOS
from extender.engine.job_terminator import JobTerminator, ProvedJob
from extender.slurm.jobs import SlurmrestdJobs
from extender.slurm.probe_script import NAME, probe_script
from slurmclient import Job, JobDescription, OutcomeUnknownError, SlurmClient, SlurmError

POLL_S = 1.0
TIME_LIMIT_MINUTES = 2
SLACK_S = 60.0
"""slurmctld checks deadlines every 30 s (`PERIODIC_TIMEOUT`)."""

EXTRA = '{"slurm-extender":1,"probe":true}'
"""Begins as the mark of a placeholder job, for the fence script; it is none for the extender."""

CALLED_WITHIN_S = 10.0
"""Seconds within which the Epilog of an ended job calls."""

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


async def submit_probe(
    config: ExtenderConfiguration, tools: Tools, url: str, partition: str, timeout_s: float, *, ahead_s: float = 0.0
) -> ProbeResult:
    """Submit the job to the slurmrestd at `url`, wait for it, and cancel it if it has not ended after `timeout_s`.

    `ahead_s`: seconds by which slurmctld's clock is ahead of this one.
    """
    hooks = config.hooks.url or ""
    defaults = config.jobs.defaults
    name = f"{NAME}-{secrets.token_hex(4)}"
    described = JobDescription(
        name=name,
        script=probe_script(hooks),
        environment=(PATH,),
        partition=partition or defaults.get(PARTITION) or config.slurm.default_partition,
        account=defaults.get(ACCOUNT),
        qos=defaults.get(QOS),
        current_working_directory="/",
        standard_input="/dev/null",
        standard_output="/dev/null",
        standard_error="/dev/null",
        tasks=1,
        cpus_per_task=1,
        minimum_nodes=1,
        maximum_nodes=1,
        memory_per_node_mb=16,
        time_limit_minutes=TIME_LIMIT_MINUTES,
        deadline=int(tools.clock.wall() + ahead_s + timeout_s + TIME_LIMIT_MINUTES * 60 + SLACK_S),
        requeue=False,
        extra=EXTRA,
    )
    async with tools.slurm(url, tools.token) as client:
        job_id, left = 0, True
        try:
            job_id = (await client.submit(described)).job_id
            job, ended = await _wait(client, tools, job_id, timeout_s)
            left = not ended
        except OutcomeUnknownError as error:
            return ProbeResult(hooks, error=f"{error}; it is cancelled, if it was made")
        except SlurmError as error:
            left = bool(job_id)
            return (
                ProbeResult(hooks, job_id, state="unknown", reason=str(error))
                if job_id
                else ProbeResult(hooks, error=str(error))
            )
        finally:
            if left:
                await _end(client, tools.clock, job_id, name)
    code = job.exit_code.return_code if ended else None
    return ProbeResult(hooks, job_id, ",".join(job.nodes) or job.batch_host, job.state.value, job.state_reason, code)


async def gather_fence(config: ExtenderConfiguration, tools: Tools, probed: ProbeResult) -> ProbedFence | None:
    """Ask the extender whether the Epilog called for the probe's job on each of its nodes; wait for that a little."""
    nodes = tuple(filter(None, probed.node.split(",")))
    if probed.code is None or not nodes:
        return None
    if config.hooks.site_key_file is None:
        return ProbedFence(missing=nodes, no_key=True)
    bind = config.observability.debug_bind
    if bind is None:
        return ProbedFence(missing=nodes, trouble="observability.debugBind is null")
    url, deadline = f"http://{local_address(bind)}/debug/nodes", tools.clock.now() + CALLED_WITHIN_S
    async with httpx.AsyncClient(transport=tools.http, timeout=TIMEOUT_S, trust_env=False) as client:
        while True:
            try:
                shown = (await client.get(url)).json()
                calls = {one["name"]: one["fenceCalls"].get(FenceScript.EPILOG, {}) for one in shown["slurm"]}
            except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
                return ProbedFence(missing=nodes, trouble=f"{url}: {str(error) or type(error).__name__}")
            called = tuple(node for node in nodes if calls.get(node, {}).get("jobId") == probed.job_id)
            if len(called) == len(nodes) or tools.clock.now() >= deadline:
                return ProbedFence(called, tuple(node for node in nodes if node not in called))
            await asyncio.sleep(POLL_S)


async def _wait(client: SlurmClient, tools: Tools, job_id: int, timeout_s: float) -> tuple[Job, bool]:
    """Return the job, and whether it has ended."""
    deadline = tools.clock.now() + timeout_s
    while True:
        job = await client.job(job_id)
        if job.state.value not in {"PENDING", "RUNNING", "SUSPENDED"}:
            return job, True
        if tools.clock.now() >= deadline:
            return job, False
        await asyncio.sleep(POLL_S)


async def _end(client: SlurmClient, clock: Clock, job_id: int, name: str) -> None:
    """End the probe, found by its name if the answer to its submission was lost. Never raises."""
    terminator = JobTerminator(SlurmrestdJobs(client, clock))
    try:
        ids = [job_id] if job_id else [one.job_id for one in await client.find_jobs_by_name(name)]
        for one in ids:
            read = await terminator.prove(one, lambda job: job.name == name)
            if isinstance(read, ProvedJob):
                await terminator.end(read)
    except (SlurmError, PortError):
        return  # Slurm ends it at its deadline.
