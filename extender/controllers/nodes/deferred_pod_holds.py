"""Hold the nodes of running Pods that are not adopted yet, from when the job that they name is seen to end.

Nothing is known of the workloads of these Pods, so no other reason holds their nodes. Authors can write any job on
their Pods: a hold needs that this process has seen the job run on the Pod's node, with a mark of this extender for a
workload of the Pod's namespace.
"""

from __future__ import annotations

import asyncio

from extender.controllers.nodes.controller import NodeController
from extender.domain.job_outcomes.slurm_states import PolledState, polled_state
from extender.domain.jobs.job import JobView
from extender.domain.jobs.ownership import pod_of
from extender.domain.placeholder import State
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.pods.deferred_pods import DeferredPods
from extender.domain.ports import PodCache, SlurmJobs
from extender.domain.views import PodView
from extender.domain.wellknown import GANG_KEY
from extender.engine.engine import Engine
from extender.engine.engine_context import EngineState
from extender.runtime.controller import Controller
from extender.runtime.topics import JobStatesPolled

_CAUSE = "deferred "
"""Begins the cause of each such hold; the UID of the Pod follows."""

_RUNS = frozenset({PolledState.STARTING, PolledState.RUNNING})

READ_APART = 0.02
"""Seconds between two reads: authors of deferred Pods can name another job before each poll."""


class DeferredPodHolds:
    """Hold a node until its Pod is gone, or until the job of the Pod's workload is known."""

    def __init__(
        self,
        engine: Engine,
        state: EngineState,
        nodes: NodeController,
        jobs: SlurmJobs,
        *,
        deferred: DeferredPods,
        allocation_records: AllocationRecords,
        cache: PodCache,
    ) -> None:
        self._engine = engine
        self._state = state
        self._nodes = nodes
        self._jobs = jobs
        self._deferred = deferred
        self._allocation_records = allocation_records
        self._cache = cache
        self._read: dict[str, tuple[int, bool]] = {}
        """By the UID of a deferred Pod: the job that it names and that was seen to run, and whether it is the Pod's."""

        self._held: set[str] = set()
        """UIDs of Pods whose nodes are held."""

        self._reader = Controller("jobs of deferred Pods", self._read_job, flow_of=self._namespace_of, keep_early=True)

    def polled(self, event: JobStatesPolled) -> None:
        """Compare the states of all jobs with those that deferred Pods name."""
        for uid in [uid for uid in self._held if self._is_known(uid)]:
            self._held.discard(uid)
            self._nodes.release_hold(_CAUSE + uid)
        self._read = {uid: one for uid, one in self._read.items() if uid in self._deferred}
        for pod in self._deferred.bound():
            job_id = self._job_of(pod)
            if job_id is None:
                continue
            job_states = event.states.get(job_id)
            seen = PolledState.ENDED if job_states is None else polled_state(job_states)
            read, is_its_job = self._read.get(pod.uid, (None, False))
            if seen in _RUNS:
                if read != job_id:
                    self._reader.add(pod.uid)
            elif seen is not PolledState.UNKNOWN and read == job_id and is_its_job:
                self._hold(pod, job_id)

    async def run(self) -> None:
        """Read the jobs that deferred Pods name, until cancelled."""
        await self._reader.run()

    async def _read_job(self, uid: str) -> None:
        pod = self._deferred.get(uid)
        job_id = None if pod is None else self._job_of(pod)
        if pod is None or job_id is None:
            return
        job = await self._jobs.read(job_id)
        if job is not None and (belongs := self._is_job_of(job, pod)) is not None:
            self._read[uid] = job_id, belongs
        await asyncio.sleep(READ_APART)

    def _namespace_of(self, uid: str) -> str:
        pod = self._deferred.get(uid)
        return "" if pod is None else pod.namespace

    def _job_of(self, pod: PodView) -> int | None:
        return self._allocation_records.read(pod.annotations, pod.uid).hint

    def _is_job_of(self, job: JobView, pod: PodView) -> bool | None:
        """Return whether a job is on the node of a Pod, and of this extender for a workload in the Pod's namespace.

        `None`: that is not known yet, and the job is read again after the next poll.
        """
        nodes, identity = self._slurm_nodes(pod), self._state.identity
        mark, sure = identity.mark_on(job)
        if mark is not None and ((not sure and identity.caller is None) or not nodes):
            return None
        if mark is None or not sure or not nodes.intersection(job.nodes):
            return False
        member = pod_of(job, mark)
        if member is None:  # the mark had no room for the name of a Pod
            return mark.workload in {pod.uid, pod.annotations.get(GANG_KEY)}
        return member.namespace == pod.namespace

    def _slurm_nodes(self, pod: PodView) -> frozenset[str]:
        return self._engine.snapshot.node_map.last_slurm([pod.node_name])

    def _hold(self, pod: PodView, job_id: int) -> None:
        self._held.add(pod.uid)
        for node in sorted(self._slurm_nodes(pod)):
            self._nodes.hold(node, _CAUSE + pod.uid, f"Pod {pod.full_name} outlives job {job_id}")

    def _is_known(self, uid: str) -> bool:
        """Return whether this Pod is over, or its workload is known, and so is the job of that."""
        pod, p = self._cache.get(uid), self._engine.placeholders.by_pod(uid)
        if pod is None or pod.ended:
            return True
        return uid not in self._deferred and p is not None and p.state is not State.UNSURE and p.job_id is not None
