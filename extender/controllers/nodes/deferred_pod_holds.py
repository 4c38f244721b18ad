"""Hold the nodes of running Pods that are not adopted yet, from when the job that they name is seen to end.

Nothing is known of the workloads of these Pods, so no other reason holds their nodes. Authors can write any job on
their Pods: a hold needs that this process has seen the job run.
"""

from __future__ import annotations

from extender.controllers.nodes.controller import NodeController
from extender.domain.job_outcomes.slurm_states import Seen, seen_by_states
from extender.domain.placeholder import State
from extender.domain.pods.claim import Claims
from extender.domain.ports import PodCache
from extender.domain.views import PodView
from extender.engine.deferred_pods import DeferredPods
from extender.engine.engine import Engine
from extender.runtime.topics import JobStatesPolled

_CAUSE = "deferred "
"""Begins the cause of each such hold; the UID of the Pod follows."""

_RUNS = frozenset({Seen.STARTING, Seen.RUNNING})


class DeferredPodHolds:
    """Hold a node until its Pod is gone, or until the job of the Pod's workload is known."""

    def __init__(
        self, engine: Engine, nodes: NodeController, deferred: DeferredPods, claims: Claims, cache: PodCache
    ) -> None:
        self._engine = engine
        self._nodes = nodes
        self._deferred = deferred
        self._claims = claims
        self._cache = cache
        self._ran: dict[str, int] = {}
        """The job that each deferred Pod names and that was seen to run, by the UID of the Pod."""

        self._held: set[str] = set()
        """UIDs of Pods whose nodes are held."""

    def polled(self, event: JobStatesPolled) -> None:
        """Compare the states of all jobs with those that deferred Pods name."""
        for uid in [uid for uid in self._held if self._is_known(uid)]:
            self._held.discard(uid)
            self._nodes.release_hold(_CAUSE + uid)
        self._ran = {uid: job_id for uid, job_id in self._ran.items() if uid in self._deferred}
        for pod in self._deferred.bound():
            job_id = self._claims.read(pod.annotations, pod.uid).hint
            if job_id is None:
                continue
            words = event.states.get(job_id)
            seen = Seen.OVER if words is None else seen_by_states(words)
            if seen in _RUNS:
                self._ran[pod.uid] = job_id
            elif seen is not Seen.UNKNOWN and self._ran.get(pod.uid) == job_id:
                self._hold(pod, job_id)

    def _hold(self, pod: PodView, job_id: int) -> None:
        self._held.add(pod.uid)
        for node in sorted(self._engine.snapshot.node_map.last_slurm([pod.node_name])):
            self._nodes.hold(node, _CAUSE + pod.uid, f"Pod {pod.full_name} outlives job {job_id}")

    def _is_known(self, uid: str) -> bool:
        """Return whether this Pod is over, or its workload is known, and so is the job of that."""
        pod, p = self._cache.get(uid), self._engine.placeholders.by_pod(uid)
        if pod is None or pod.ended:
            return True
        return uid not in self._deferred and p is not None and p.state is not State.UNSURE and p.job_id is not None
