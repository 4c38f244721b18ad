"""Resolve the workload of a Pod, and the Pods of a workload. No other module knows how keys are made.

A workload is what gets one placeholder job. Today each is one Pod, and its key is the Pod's UID. The key is part of the
job's name and mark, so that a start finds the job of a Pod and the Pods of a job.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.domain.events import MemberRef
from extender.domain.jobs.job import JobView, Mark
from extender.domain.jobs.ownership import pod_of
from extender.domain.ports import PodCache
from extender.domain.views import PodView
from extender.engine.placeholder_index import PlaceholderIndex


class WorkloadResolver:
    """Resolve in both directions, for workloads that the engine knows and for those of jobs that it does not."""

    def __init__(self, placeholders: PlaceholderIndex, cache: PodCache) -> None:
        self._placeholders = placeholders
        self._cache = cache

    def key_of(self, pod: PodView) -> str:
        """Return the key of the workload of which a Pod is a member, or would be."""
        return self._placeholders.workload_of_pod(pod.uid) or pod.uid

    def uids(self, key: str) -> tuple[str, ...]:
        """Return the UIDs of the Pods of a workload, whether they exist or not."""
        p = self._placeholders.get(key)
        return tuple(ref.uid for ref in p.refs) if p is not None and p.refs else (key,)

    def pods(self, key: str) -> list[PodView]:
        """Return the Pods of a workload that exist."""
        return [pod for uid in self.uids(key) if (pod := self._cache.get(uid)) is not None]

    def may_have_pods(self, key: str) -> bool:
        """Return whether a Pod of this workload may exist although it could not be read."""
        return any(self._cache.may_exist(uid) for uid in self.uids(key))

    def members_of_job(self, job: JobView, mark: Mark) -> Sequence[MemberRef]:
        """Return the Pods for which a job with this mark was made, so far as the job says which."""
        ref = pod_of(job, mark)
        return () if ref is None else (ref,)
