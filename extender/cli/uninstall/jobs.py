"""Cancel the extender's jobs of Pods that wait or are gone, and keep those that Pods run on."""

from __future__ import annotations

from extender.cli.uninstall.actions import ActionLog, each
from extender.cli.uninstall.inventory import Inventory
from extender.cli.uninstall.options import InventoryError
from extender.domain.events import MemberRef
from extender.domain.foreign_pods.mark import ForeignPodMark, foreign_pod_mark_of
from extender.domain.gangs.membership import is_key_of_gang
from extender.domain.jobs.job import JobView, Mark
from extender.domain.jobs.ownership import mark_of_orphan
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.ports import PortError
from extender.domain.views import PodView
from extender.engine.job_terminator import JobTerminator, ProvedJob
from extender.kube.writes import PodWriter
from extender.slurm.jobs import SlurmrestdJobs

ENDED = "SlurmExtenderUninstalled"
"""Reason of the condition DisruptionTarget of evicted Pods."""

LIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED", "CONFIGURING"})
"""States of jobs that hold resources, or will."""


class JobCleanup:
    """`mark` names this cluster and scheduler; `caller` is the user who submits the extender's jobs, if known.

    `cancel_running`: running Pods are evicted.
    """

    def __init__(
        self,
        actions: ActionLog,
        jobs: SlurmrestdJobs,
        pods: PodWriter,
        mark: Mark,
        caller: int | None,
        *,
        allocation_records: AllocationRecords,
        cancel_running: bool,
    ) -> None:
        self._actions = actions
        self._jobs = jobs
        self._terminator = JobTerminator(jobs)
        self._pod_writer = pods
        self._mark = mark
        self._caller = caller
        self._allocation_records = allocation_records
        self._cancel_running = cancel_running

    async def end(self, found: Inventory) -> None:
        """Cancel the jobs that no Pod runs on. Raises `InventoryError`."""
        try:
            states = await self._jobs.states()
        except PortError as error:
            raise InventoryError(str(error)) from error

        async def check_one(job_id: int) -> None:
            try:
                read = await self._terminator.prove(job_id, self._is_own_job)
            except PortError as error:
                self._actions.left(f"job {job_id} cannot be read: {error}")
                return
            if isinstance(read, ProvedJob):
                await self._end_job(read, found)
            elif read is not None and mark_of_orphan(read.job, self._mark, self._caller)[0] is not None:
                self._actions.left(
                    f"job {job_id} has the extender's mark without proof; "
                    f"cancel it with `scancel {job_id}` if it is a placeholder job"
                )

        await each(sorted(job_id for job_id, states_of_job in states.items() if states_of_job & LIVE), check_one)

    def _foreign_pod_mark(self, job: JobView) -> ForeignPodMark | None:
        """Return the mark of this extender's job for a foreign Pod."""
        mark = foreign_pod_mark_of(job)
        own = mark is not None and (mark.cluster, mark.scheduler) == (self._mark.cluster, self._mark.scheduler)
        return mark if own else None

    def _is_own_job(self, job: JobView) -> bool:
        mark, sure = mark_of_orphan(job, self._mark, self._caller)
        return self._foreign_pod_mark(job) is not None or (mark is not None and sure)

    async def _end_job(self, proved: ProvedJob, found: Inventory) -> None:
        job = proved.job
        if (foreign_pod := self._foreign_pod_mark(job)) is not None:
            await self._cancel(proved, f"which holds the resources of Pod {foreign_pod.pod or foreign_pod.uid}")
            return
        mark, _ = mark_of_orphan(job, self._mark, self._caller)
        if mark is None:
            return
        if is_key_of_gang(mark.workload):
            await self._end_gang(proved, found)
            return
        if mark.workload in found.unread:
            self._keep(job, mark.workload, found, f"its Pod {mark.pod or mark.workload} cannot be read")
            return
        pod = found.pods.get(mark.workload)
        if pod is None or not pod.node_name or pod.ended:
            whose = f"of Pod {pod.full_name}, which waits" if pod is not None else "whose Pod is gone"
            await self._cancel(
                proved, whose if pod is None or not pod.ended else f"of Pod {pod.full_name}, which is over"
            )
            return
        recorded = self._allocation_records.read(pod.annotations, pod.uid).job_on(pod.node_name)
        if recorded not in {None, job.job_id}:
            await self._cancel(proved, f"of Pod {pod.full_name}, which runs on job {recorded}")
        elif self._cancel_running:
            await self._end_pod(job, pod, found)
        else:
            self._keep(job, pod.uid, found, f"Pod {pod.full_name} runs on it")

    async def _end_gang(self, proved: ProvedJob, found: Inventory) -> None:
        """Cancel the job of a gang, or keep it while a member runs on it: its members say so, its mark does not."""
        job = proved.job
        members = [pod for pod in found.pods.values() if pod.node_name and not pod.ended and self._names(pod, job)]
        if not members and found.unread:
            self._keep(job, "", found, "Pods that may be members of its gang cannot be read")
        elif not members:
            await self._cancel(proved, "of a gang of which no member runs")
        for pod in members:
            if self._cancel_running:
                await self._end_pod(job, pod, found)
            else:
                self._keep(job, pod.uid, found, f"Pod {pod.full_name} runs on it")

    def _names(self, pod: PodView, job: JobView) -> bool:
        """Return whether a Pod on a node names this job. Without a proof it counts too: no Pod loses its job here."""
        record = self._allocation_records.read(pod.annotations, pod.uid)
        return job.job_id in {record.job_on(pod.node_name), record.hint}

    def _keep(self, job: JobView, uid: str, found: Inventory, why: str) -> None:
        found.kept.add(job.job_id)
        found.kept_pods.add(uid)
        found.busy |= set(job.nodes)
        self._actions.keep(f"job {job.job_id}: {why}; run this again when the Pod has ended")

    async def _end_pod(self, job: JobView, pod: PodView, found: Inventory) -> None:
        """Evict a Pod; its job stays until the Pod is gone, since Slurm would allocate the node again."""
        found.kept.add(job.job_id)
        found.kept_pods.add(pod.uid)
        found.busy |= set(job.nodes)
        ref = MemberRef.of(pod)

        async def end() -> str:
            answer = await self._pod_writer.end(ref, ENDED, "The extender is being uninstalled.", voluntary=True)
            return "" if answer.accepted else answer.text

        if await self._actions.do(f"evict Pod {pod.full_name}", end):
            self._actions.left(f"job {job.job_id}: its Pod {pod.full_name} is ending; run this again when it is gone")

    async def _cancel(self, proved: ProvedJob, why: str) -> None:
        async def cancel() -> str:
            answer = await self._terminator.end(proved)
            return "" if answer.job_ended or not answer.text else answer.text

        await self._actions.do(f"cancel job {proved.job.job_id}, {why}", cancel)
