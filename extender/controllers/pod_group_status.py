"""Write in the status of each PodGroup how far its gang is, unless another controller writes it.

kube-scheduler writes the condition of Kubernetes' PodGroups where its feature gate is on, and the controller of
scheduler-plugins the phase of coscheduling's. Two writers of one field would overwrite each other without end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from extender.domain.gangs.context import GroupRef
from extender.domain.gangs.group_status import condition_of, progress_of
from extender.domain.gangs.membership import GangSource, is_key_of_gang
from extender.domain.gangs.pod_groups import GroupCondition, GroupProgress, GroupStatus, PodGroupView
from extender.domain.gangs.recognition import group_of
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.ports import Announcement, Announcer, Clock, PodGroupStatuses, StatusAnswer, StatusResult
from extender.domain.timestamp import timestamp
from extender.domain.views import PodView
from extender.domain.wellknown import Reason
from extender.engine.engine import Engine
from extender.engine.workload_resolver import WorkloadResolver
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.topics import PlaceholderChanged, PodChanged, PodGroupChanged

_log = structlog.get_logger(__name__)

WRITTEN = frozenset({GangSource.POD_GROUP, GangSource.COSCHEDULING})
"""Sources whose PodGroups have a status that the extender writes. Volcano's says what Volcano's own queues do."""

SETTLED_AFTER = 1.0
"""Seconds between a change of a Pod and the write: the members of a gang change together."""

STEADY = 10.0
"""Seconds for which a Pod has to wait before the condition says so: most gangs start within that."""

APART = 30.0
"""Seconds between two writes of the same state with another text, or other counts."""

OTHERS = 600.0
"""Seconds after a write of another controller in which the extender writes nothing."""

RETRY = 30.0
CONFLICT_RETRY = 3600.0
RESYNC_EVERY, RESYNC_PER_SECOND = 300.0, 20.0

LONGEST_SHOWN = 200
"""Characters of the API server's answer that an Event shows."""


@dataclass(frozen=True, slots=True)
class _WrittenStatus:
    """The last write for one PodGroup, and when another may follow."""

    uid: str
    version: str
    """The version of the object as it was seen before the write."""

    status: GroupStatus
    at: float
    not_before: float = 0.0


@dataclass(frozen=True, slots=True)
class NamedGroups:
    """Find PodGroups, and the Pods of this scheduler that name them. `condition`: Kubernetes' type of condition."""

    group: Callable[[GroupRef], PodGroupView | None]
    naming: Callable[[GroupRef], Sequence[PodView]]
    named: Callable[[], Sequence[GroupRef]]
    condition: Callable[[], str]


class PodGroupStatusController:
    """Compare the status of each PodGroup with the state of its gang. Keys are PodGroups as Pods name them."""

    def __init__(
        self,
        engine: Engine,
        workloads: WorkloadResolver,
        statuses: PodGroupStatuses,
        announcer: Announcer,
        clock: Clock,
        *,
        groups: NamedGroups,
        allocation_records: AllocationRecords,
    ) -> None:
        self._engine = engine
        self._workloads = workloads
        self._statuses = statuses
        self._announcer = announcer
        self._clock = clock
        self._groups = groups
        self._allocation_records = allocation_records
        self._written: dict[GroupRef, _WrittenStatus] = {}
        self.results: Counter[StatusResult] = Counter()
        self._controller = Controller(
            "status of PodGroups",
            self._reconcile,
            flow_of=lambda ref: ref.namespace,
            resync=Resync(groups.named, RESYNC_EVERY, RESYNC_PER_SECOND),
        )

    async def run(self) -> None:
        """Compare and write, until cancelled."""
        await self._controller.run()

    def pod_changed(self, event: PodChanged) -> None:
        """Compare the status of the PodGroup that a changed Pod names."""
        old, new = event.old, event.new
        pod = new or old
        if pod is None or (old is not None and new is not None and _counted(old) == _counted(new)):
            return
        self._changed(group_of(pod))

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Compare the status of the PodGroup of a gang whose workload is in another state."""
        if event.before.state is not event.after.state and is_key_of_gang(event.after.key):
            pod = next(iter(self._workloads.pods(event.after.key)), None)
            self._changed(None if pod is None else group_of(pod))

    def group_changed(self, event: PodGroupChanged) -> None:
        """Compare the status of a PodGroup that appeared, or asks for another number of members."""
        self._changed(event.group)

    def _changed(self, group: GroupRef | None) -> None:
        if group is not None and group.source in WRITTEN:
            self._controller.add(group, after=SETTLED_AFTER)

    async def _reconcile(self, ref: GroupRef) -> Requeue | None:
        group = self._groups.group(ref) if ref.source in WRITTEN else None
        if group is None or group.least <= 1:
            self._written.pop(ref, None)
            return None
        key, pods = self._gang(ref)
        if not pods:
            self._written.pop(ref, None)
            return None
        before = self._shown(ref, group)
        wanted = self._wanted(group, key, pods, before)
        if wanted == before:
            return None
        if (wait := self._wait(ref, group, wanted, pods)) > 0.0:
            return Requeue(wait)
        answer = await self._statuses.write(group, wanted)
        self.results[answer.result] += 1
        return self._note(ref, group, wanted, answer, pods)

    def _note(
        self, ref: GroupRef, group: PodGroupView, wanted: GroupStatus, answer: StatusAnswer, pods: Sequence[PodView]
    ) -> Requeue | None:
        now = self._clock.now()
        match answer.result:
            case StatusResult.WRITTEN:
                self._written[ref] = _WrittenStatus(group.uid, group.resource_version, wanted, now)
                return None
            case StatusResult.CONFLICT:
                self._written[ref] = _WrittenStatus(group.uid, "", wanted, now, now + CONFLICT_RETRY)
                self._report_conflict(group, answer.text, pods[0])
                return Requeue(CONFLICT_RETRY)
            case StatusResult.GONE:
                return None
            case StatusResult.FAILED:
                return Requeue(RETRY)

    def _gang(self, ref: GroupRef) -> tuple[str, Sequence[PodView]]:
        """Return the gang of a PodGroup, and its Pods. Pods of others that name it make gangs of their own.

        Of several gangs it is the one with the most Pods on nodes, then with the most Pods.
        """
        by_key: dict[str, list[PodView]] = {}
        for pod in self._groups.naming(ref):
            if is_key_of_gang(key := self._key(pod)):
                by_key.setdefault(key, []).append(pod)
        if not by_key:
            return "", ()
        return max(
            by_key.items(), key=lambda item: (sum(bool(pod.node_name) for pod in item[1]), len(item[1]), item[0])
        )

    def _key(self, pod: PodView) -> str:
        """Return the workload of a Pod; of one that had ended before this process, what its Binding says."""
        key = self._workloads.key_of(pod)
        if is_key_of_gang(key):
            return key
        return self._allocation_records.read(pod.annotations, pod.uid).gang_on(pod.node_name) or key

    def _wanted(
        self, group: PodGroupView, key: str, pods: Sequence[PodView], before: GroupStatus | None
    ) -> GroupStatus:
        if group.kind.source is GangSource.COSCHEDULING:
            return progress_of(pods, group.least, before if isinstance(before, GroupProgress) else None)
        p = self._engine.placeholders.get(key)
        return condition_of(
            self._groups.condition(),
            pods,
            group.least,
            before if isinstance(before, GroupCondition) else None,
            why="The Pods have no Slurm job." if p is None else self._engine.explain(p).text,
            now=timestamp(self._clock.wall()),
        )

    def _shown(self, ref: GroupRef, group: PodGroupView) -> GroupStatus | None:
        """Return what the status says, after the last write, which the watch may not show yet."""
        last = self._written.get(ref)
        if last is not None and (last.uid, last.version) == (group.uid, group.resource_version):
            return last.status
        return group.status

    def _wait(self, ref: GroupRef, group: PodGroupView, wanted: GroupStatus, pods: Sequence[PodView]) -> float:
        """Return in how many seconds this may be written; 0: now."""
        now, wall = self._clock.now(), self._clock.wall()
        waits = [group.written_at + OTHERS - wall] if group.writer else []
        last = self._written.get(ref)
        if last is not None and last.uid == group.uid:
            waits.append(last.not_before - now)
            waits.append(last.at + (APART if _state(last.status) == _state(wanted) else SETTLED_AFTER) - now)
        if isinstance(wanted, GroupCondition) and not wanted.holds:
            waits.append(min(pod.created_at for pod in pods) + STEADY - wall)
        return max((0.0, *waits))

    def _report_conflict(self, group: PodGroupView, error_text: str, pod: PodView) -> None:
        text = (
            f"The extender does not write the status of PodGroup {group.name}: {error_text[:LONGEST_SHOWN]}. "
            "Let one of the two controllers write it."
        )
        _log.warning("pod_group_status_conflict", namespace=group.namespace, group=group.name, error=error_text)
        announcement = Announcement(
            "Pod", pod.namespace, pod.name, pod.uid, Reason.POD_GROUP_STATUS_CONFLICT, text, warning=True
        )
        self._announcer.announce(announcement)


def _counted(pod: PodView) -> tuple[object, ...]:
    """Return the part of a Pod that decides about the status of its PodGroup."""
    return pod.phase, bool(pod.node_name), group_of(pod)


def _state(status: GroupStatus) -> object:
    """Return the part of a status that is written at once when it changes."""
    return status.phase if isinstance(status, GroupProgress) else (status.type, status.holds)
