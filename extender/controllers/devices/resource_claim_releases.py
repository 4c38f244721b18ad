"""Keep ResourceClaims and jobs in agreement: release what no job holds, and report devices with two holders.

`member_devices` writes the allocations of ResourceClaims, `pod_devices` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import structlog

from extender.controllers.devices.member_devices import MemberDevices
from extender.controllers.devices.pod_devices import PodDevices
from extender.domain.devices.choice import conflicts
from extender.domain.devices.views import ResourceClaimView
from extender.domain.placeholder import State
from extender.domain.placeholders import Placeholders
from extender.domain.pods.deferred_pods import DeferredPods
from extender.domain.ports import Announcement, Announcer, DeviceCache
from extender.domain.views import PodView
from extender.domain.wellknown import Reason
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.topics import PlaceholderChanged, PlaceholderForgotten, PodChanged, ResourceClaimChanged

_log = structlog.get_logger(__name__)

RESYNC_S = 60.0
"""Seconds between two looks at every ResourceClaim: a release that nothing announced is made up for."""

RETRY_S = 1.0
"""Seconds before a ResourceClaim is looked at again that could not be judged or written."""

REPORTED_KEPT = 1000
"""Conflicts of which it is remembered that they were reported."""


class ResourceClaimController:
    """Reconcile ResourceClaims, by UID.

    `find` and `every` return ResourceClaims as last seen; `namespace_of` is by UID. `reconsider` is called with Pods of
    which more is known. `fresh`: return whether the informers are up to date.
    """

    def __init__(
        self,
        placeholders: Placeholders,
        pods: PodDevices,
        members: MemberDevices,
        devices: DeviceCache,
        announcer: Announcer,
        *,
        find: Callable[[str], ResourceClaimView | None],
        every: Callable[[], Iterable[ResourceClaimView]],
        namespace_of: Callable[[str], str],
        reconsider: Callable[[Sequence[PodView]], None],
        fresh: Callable[[], bool],
        deferred: DeferredPods,
    ) -> None:
        self._deferred = deferred
        self._placeholders = placeholders
        self._pods = pods
        self._members = members
        self._devices = devices
        self._announcer = announcer
        self._find = find
        self._reconsider = reconsider
        self._fresh = fresh
        self._reported: dict[tuple[str, str], None] = {}
        self._half_released: dict[str, str] = {}
        """Versions of ResourceClaims without an allocation that still name a job, by UID."""

        self._controller = Controller(
            "ResourceClaims",
            self._reconcile,
            workers=4,
            flow_of=namespace_of,
            resync=Resync(lambda: [one.uid for one in every()], every=RESYNC_S),
        )

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._controller.run()

    def resource_claim_changed(self, event: ResourceClaimChanged) -> None:
        """Handle a change of a ResourceClaim."""
        old, new = event.old, event.new
        resource_claim = new or old
        if resource_claim is None:
            return
        if new is not None:
            self._controller.add(new.uid)
        if self._fresh() and (old is None or new is None or _judged(old) != _judged(new)):
            self._reconsider(self._pods.users(resource_claim))

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Handle a workload that got, lost or uses its job."""
        before, after = event.before, event.after
        if before.job_id != after.job_id or before.state is not after.state or before.allocation != after.allocation:
            for ref in after.refs:
                self._add(self._pods.known(ref.uid))

    def pod_changed(self, event: PodChanged) -> None:
        """Handle a Pod that ended, or is gone."""
        if event.new is None or event.new.finished:
            self._add(event.new or event.old)

    def forgotten(self, event: PlaceholderForgotten) -> None:
        """Drop what is kept of a workload."""
        self._members.forget(event.key)

    def _add(self, pod: PodView | None) -> None:
        names = () if pod is None else {one.resource_claim for one in pod.resource_claims if one.resource_claim}
        for name in sorted(names):
            resource_claim = None if pod is None else self._devices.resource_claim(pod.namespace, name)
            if resource_claim is not None:
                self._controller.add(resource_claim.uid)

    async def _reconcile(self, uid: str) -> Requeue | None:
        resource_claim = self._find(uid)
        if resource_claim is None:
            self._half_released.pop(uid, None)
            return None
        if not self._fresh():
            return Requeue(RETRY_S)
        if resource_claim.reminds_of:
            return None
        users = self._pods.users(resource_claim)
        if waiting := [pod for pod in users if self._is_untranslated(pod)]:
            self._reconsider(waiting)
        if resource_claim.allocated is None:
            return await self._write_again(resource_claim, users) or await self._finish_release(resource_claim, users)
        self._half_released.pop(uid, None)
        if (
            resource_claim.job_id is not None
            and not resource_claim.reserved
            and not any(self._holds(resource_claim, pod) for pod in users)
        ):
            await self._members.release(resource_claim)
        elif resource_claim.reserved:
            self._report_conflicts(resource_claim)
        return None

    def _is_untranslated(self, pod: PodView) -> bool:
        """Return whether a Pod waits for its translation, perhaps because this ResourceClaim came only now."""
        p = self._placeholders.by_pod(pod.uid)
        return p is not None and p.request is None and not p.faults and not pod.node_name

    def _holds(self, resource_claim: ResourceClaimView, pod: PodView) -> bool:
        """Return whether the Pod's job is, or may be, the one for which the allocation was written."""
        p = self._placeholders.by_pod(pod.uid)
        member = None if p is None else p.member(pod.uid)
        if pod.uid in self._deferred:
            return True
        if p is None or member is None or member.end:
            return False
        if p.state is State.UNSURE or member.node or member.binding:
            return True
        here = resource_claim.allocated is None or p.node_of(pod.uid) == resource_claim.node
        return p.state is State.GRANTED and p.job_id == resource_claim.job_id and here

    async def _finish_release(self, resource_claim: ResourceClaimView, users: Sequence[PodView]) -> Requeue | None:
        """Remove what a process left that ended between the two writes of a release: the finalizer and the job.

        A ResourceClaim that changes meanwhile is left alone: a release or an allocation of it is under way.
        """
        seen = self._half_released.pop(resource_claim.uid, "")
        if (
            resource_claim.job_id is None
            or resource_claim.reserved
            or any(self._holds(resource_claim, pod) for pod in users)
        ):
            return None
        if seen == resource_claim.resource_version and not self._devices.holders.is_being_written(resource_claim.uid):
            await self._members.release(resource_claim)
            return None
        self._half_released[resource_claim.uid] = resource_claim.resource_version
        return Requeue(RETRY_S)

    async def _write_again(self, resource_claim: ResourceClaimView, users: Sequence[PodView]) -> Requeue | None:
        """Write an allocation that kube-scheduler took away because it refused the node in one cycle (PostFilter)."""
        for pod in users:
            p = self._placeholders.by_pod(pod.uid)
            member = None if p is None else p.member(pod.uid)
            if p is None or member is None or p.state is not State.GRANTED or not p.cleared or not member.wanting:
                continue
            if self._devices.holders.is_being_written(resource_claim.uid):
                return Requeue(RETRY_S)
            if resource_claim.job_id == p.job_id and (why := await self._members.prepare(p, member.ref)):
                _log.info(
                    "resource_claim_not_written_again",
                    resource_claim=resource_claim.full_name,
                    uid=resource_claim.uid,
                    why=why,
                )
                return Requeue(RETRY_S)
        return None

    def _report_conflicts(self, resource_claim: ResourceClaimView) -> None:
        """Report a device that two bound Pods have: no API can take it from either."""
        for device, other in conflicts(resource_claim, self._members.stock):
            pair = (min(resource_claim.uid, other.uid), max(resource_claim.uid, other.uid))
            pods = [pod for one in (resource_claim, other) for pod in self._pods.users(one) if pod.uid in one.reserved]
            if pair in self._reported or len(pods) < 2 or not all(pod.node_name for pod in pods):
                continue
            self._reported[pair] = None
            if len(self._reported) > REPORTED_KEPT:
                del self._reported[next(iter(self._reported))]
            names = " and ".join(sorted(pod.full_name for pod in pods))
            text = f"Device {device.text} is allocated to Pods {names}; delete one of them."
            for pod in pods:
                self._announcer.announce(
                    Announcement(
                        "Pod", pod.namespace, pod.name, pod.uid, Reason.DEVICE_ALLOCATED_TWICE, text, warning=True
                    )
                )


def _judged(resource_claim: ResourceClaimView) -> tuple[object, ...]:
    """Return the parts of a ResourceClaim that decide how its Pod is translated."""
    foreign = resource_claim.allocated is not None and resource_claim.job_id is None
    return (
        resource_claim.requests,
        resource_claim.constrained,
        resource_claim.deleted,
        resource_claim.unreadable,
        resource_claim.reserved if foreign else (),
    )
