"""Submits a job that calls the hooks from a node, and waits for it. Whatever happens, it is not left behind."""

from __future__ import annotations

import asyncio

from extender.config.document import ExtenderConfiguration
from extender.doctor.checks.hooks import Probed
from extender.doctor.tools import Tools
from extender.slurm.probe_script import NAME, probe_script
from slurmclient import Job, JobDescription, SlurmClient, SlurmError

LOOK_EVERY_S = 1.0
TIME_LIMIT_MINUTES = 2
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


async def submit_probe(
    config: ExtenderConfiguration, tools: Tools, url: str, partition: str, timeout_s: float
) -> Probed:
    """`url` is the slurmrestd that answers. The job is cancelled where it has not ended after `timeout_s`."""
    hooks = config.hooks.url or ""
    defaults = config.jobs.defaults
    described = JobDescription(
        name=NAME,
        script=probe_script(hooks),
        environment=(PATH,),
        partition=partition or defaults.partition or config.slurm.default_partition,
        account=defaults.account,
        qos=defaults.qos,
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
        requeue=False,
    )
    async with tools.slurm(url, tools.token) as client:
        try:
            job_id = (await client.submit(described)).job_id
        except SlurmError as error:
            return Probed(hooks, error=str(error))
        ended = False
        try:
            job, ended = await _awaited(client, tools, job_id, timeout_s)
        except SlurmError as error:
            return Probed(hooks, job_id, state="unknown", reason=str(error))
        finally:
            if not ended:
                await _ended(client, job_id)
    code = job.exit_code.return_code if ended else None
    return Probed(hooks, job_id, ",".join(job.nodes) or job.batch_host, job.state.value, job.state_reason, code)


async def _awaited(client: SlurmClient, tools: Tools, job_id: int, timeout_s: float) -> tuple[Job, bool]:
    """The job, and whether it is over."""
    deadline = tools.clock.now() + timeout_s
    while True:
        job = await client.job(job_id)
        if job.state.value not in {"PENDING", "RUNNING", "SUSPENDED"}:
            return job, True
        if tools.clock.now() >= deadline:
            return job, False
        await asyncio.sleep(LOOK_EVERY_S)


async def _ended(client: SlurmClient, job_id: int) -> None:
    try:
        await client.cancel(job_id)
    except SlurmError:
        return  # it ends by itself within its time limit, once it has started
