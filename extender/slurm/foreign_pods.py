"""Jobs of Pods that Slurm did not place, through slurmrestd: implements `ports.SlurmForeignPods`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from extender.domain.foreign_pods.foreign_pod import ForeignPodOrder
from extender.domain.jobs.job import JobView
from extender.domain.ports import Clock, ForeignPodJobAnswer, ForeignPodJobResult, SlurmForeignPods
from extender.slurm.api_requests import ObserveRequest, as_port_error, timed, unobserved
from extender.slurm.jobs import SlurmrestdJobs
from slurmclient import (
    INFINITE,
    AuthenticationError,
    CapacityError,
    ConnectError,
    ControllerUnavailableError,
    JobDescription,
    RefusedError,
    SlurmClient,
    SlurmError,
    UnsupportedError,
)

_LIMITED = {2050, 2074}
"""A limit of the association or QOS: it is about the account of the foreign Pods, and says nothing about the node."""


class SlurmrestdForeignPods:
    """Asks Slurm for the jobs of foreign Pods. Jobs are read as all others, by `jobs`."""

    def __init__(
        self, client: SlurmClient, jobs: SlurmrestdJobs, clock: Clock, *, observe_request: ObserveRequest = unobserved
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._clock = clock
        self._observe = observe_request

    async def hold(self, order: ForeignPodOrder) -> ForeignPodJobAnswer:
        """Allocate or submit. An immediate allocation that is granted runs."""
        try:
            description = describe_foreign_pod(order)
            what = "allocate" if order.immediate else "submit"
            async with timed(what, self._clock, self._observe):
                create = self._client.allocate if order.immediate else self._client.submit
                return ForeignPodJobAnswer(ForeignPodJobResult.MADE, (await create(description)).job_id)
        except SlurmError as error:
            return _failed(error)

    async def find(self, name: str, job_ids: Iterable[int]) -> Sequence[JobView]:
        """Find by name, then one by one."""
        async with as_port_error(f"jobs named {name!r}"), timed("find", self._clock, self._observe):
            found = await self._client.find_jobs_by_name(name)
        jobs = [await self._jobs.read(one) for one in sorted({job.job_id for job in found} | set(job_ids))]
        return [job for job in jobs if job is not None]


def describe_foreign_pod(order: ForeignPodOrder) -> JobDescription:
    """Build the job description for Slurm. Raises `slurmclient.InvalidRequestError`."""
    foreign_pod, options = order.foreign_pod, order.options
    gres = ",".join(f"gres/{name}:{count}" for name, count in sorted(foreign_pod.amount.gres.items()))
    return JobDescription(
        name=order.name,
        extra=order.mark,
        admin_comment=order.mark,
        comment=f"Kubernetes Pod {foreign_pod.pod}"[:256],
        partition=options.partition or None,
        qos=options.qos or None,
        account=options.account or None,
        reservation=options.reservation or None,
        priority=options.priority,
        required_nodes=(foreign_pod.node,),
        minimum_nodes=1,
        maximum_nodes=1,
        tasks=1,
        cpus_per_task=foreign_pod.amount.cpus,
        minimum_cpus=foreign_pod.amount.cpus,
        memory_per_node_mb=foreign_pod.amount.memory_mb,
        tres_per_node=gres or None,
        time_limit_minutes=INFINITE if order.minutes is None else order.minutes,
        requeue=False,
        external=True,
        current_working_directory="/",
        # Otherwise slurmctld asks a node without slurmd for an answer at a preemption with GraceTime (`describe`).
        kill_warning_signal="USR1",
        kill_warning_flags=("BATCH_JOB",),
    )


def _failed(error: SlurmError) -> ForeignPodJobAnswer:
    match error:
        case CapacityError() if (error.slurm_errno or 0) not in _LIMITED:
            return ForeignPodJobAnswer(ForeignPodJobResult.NO_ROOM, text=str(error))
        case ControllerUnavailableError(surely_not_done=False):
            return ForeignPodJobAnswer(ForeignPodJobResult.UNKNOWN, text=str(error))
        case (
            CapacityError()
            | RefusedError()
            | UnsupportedError()
            | ConnectError()
            | AuthenticationError()
            | ControllerUnavailableError()
        ):
            return ForeignPodJobAnswer(ForeignPodJobResult.REFUSED, text=str(error))
        case _:
            return ForeignPodJobAnswer(ForeignPodJobResult.UNKNOWN, text=str(error))


if TYPE_CHECKING:

    def _implements(foreign_pods: SlurmrestdForeignPods) -> SlurmForeignPods:
        return foreign_pods
