"""Bring devices back to kube-schedulers that forgot who holds them (docs/decisions/0038-reminders-of-devices.md).

Apart from the other work on ResourceClaims, which waits for the watch: until the reminder is written, a kube-scheduler
may give the device away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from extender.domain.devices.holders import is_in_use
from extender.domain.devices.views import DeviceId, ResourceClaimView
from extender.domain.ports import DeviceCache, PortError, ResourceClaims
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.topics import ResourceClaimChanged

_log = structlog.get_logger(__name__)

RESYNC_S = 60.0
"""Seconds between two looks at every reminder."""

RETRY_S = 1.0
"""Seconds before a ResourceClaim is looked at again while Pods are not known as they are."""


class DeviceReminderController:
    """Reconcile ResourceClaims that hold a forgotten device, and reminders, both by UID.

    `find` and `every` return ResourceClaims as last seen; `namespace_of` is by UID.
    `fresh`: return whether the informers are up to date.
    """

    def __init__(
        self,
        devices: DeviceCache,
        resource_claims: ResourceClaims,
        *,
        find: Callable[[str], ResourceClaimView | None],
        every: Callable[[], Iterable[ResourceClaimView]],
        namespace_of: Callable[[str], str],
        fresh: Callable[[], bool],
    ) -> None:
        self._devices = devices
        self._resource_claims = resource_claims
        self._find = find
        self._fresh = fresh
        self._forgotten: dict[str, set[DeviceId]] = {}
        """Devices of ResourceClaims, by UID, of which kube-schedulers know no more that they are allocated."""

        self._controller = Controller(
            "DeviceReminders",
            self._reconcile,
            workers=4,
            flow_of=namespace_of,
            resync=Resync(lambda: [*self._forgotten, *(one.uid for one in every() if one.reminds_of)], every=RESYNC_S),
        )

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._controller.run()

    def resource_claim_changed(self, event: ResourceClaimChanged) -> None:
        """Handle a change of a ResourceClaim."""
        old, new = event.old, event.new
        if new is not None and new.reminds_of:
            self._controller.add(new.uid)
            if new.allocated and (old is None or not old.allocated):
                self._reminded(new)
        # A list shows a ResourceClaim that was freed and allocated once more in between with other devices.
        if old is not None and (new is None or new.allocated != old.allocated):
            self._freed(old, gone=new is None)
            if new is None:
                self._forgotten.pop(old.uid, None)

    def _freed(self, resource_claim: ResourceClaimView, *, gone: bool) -> None:
        """Note which other ResourceClaims hold the devices of one that was freed: kube-schedulers forget these.

        A reminder that stays is freed only in order to be allocated again.
        """
        holders = self._devices.holders
        for reminder in holders.reminders(resource_claim.uid):
            self._controller.add(reminder)
        for device in resource_claim.devices if gone or resource_claim.deleted or not resource_claim.reminds_of else ():
            for uid in holders.others(device, resource_claim.uid):
                other = holders.resource_claim(uid)
                if other is not None and not other.reminds_of and device in _whole(other):
                    self._forgotten.setdefault(uid, set()).add(device)
                    self._controller.add(uid)

    def _reminded(self, reminder: ResourceClaimView) -> None:
        """Note that a reminder of this process, or of another one, brought its device back."""
        if (left := self._forgotten.get(reminder.reminds_of)) is not None:
            left -= reminder.devices
            if not left:
                del self._forgotten[reminder.reminds_of]

    async def _reconcile(self, uid: str) -> Requeue | None:
        resource_claim = self._find(uid)
        if resource_claim is None:
            self._forgotten.pop(uid, None)
            return None
        if not self._fresh():
            return Requeue(RETRY_S)
        if resource_claim.reminds_of:
            await self._judge(resource_claim)
        else:
            await self._remind(resource_claim)
        return None

    async def _remind(self, resource_claim: ResourceClaimView) -> None:
        """Bring the forgotten devices of a ResourceClaim back. Raises `PortError` for the last that could not be."""
        failed = None
        forgotten = self._forgotten.pop(resource_claim.uid, set())
        for device in sorted(forgotten & resource_claim.devices):
            try:
                await self._resource_claims.remind(resource_claim, device)
            except PortError as error:
                failed = error
                self._forgotten.setdefault(resource_claim.uid, set()).add(device)
                _log.warning(
                    "device_reminder_not_written",
                    resource_claim=resource_claim.full_name,
                    uid=resource_claim.uid,
                    error=str(error),
                )
            else:
                _log.info(
                    "device_reminder_written",
                    resource_claim=resource_claim.full_name,
                    uid=resource_claim.uid,
                    device=device.text,
                )
        if failed is not None:
            raise failed

    async def _judge(self, reminder: ResourceClaimView) -> None:
        """Delete a reminder whose ResourceClaim does not hold its device any more. Raises `PortError`."""
        if reminder.deleted or not is_in_use(reminder, self._find(reminder.reminds_of)):
            await self._resource_claims.remove(reminder)


def _whole(resource_claim: ResourceClaimView) -> frozenset[DeviceId]:
    """Return the devices that a ResourceClaim has as a whole: of shares, kube-schedulers keep count."""
    return frozenset(one.device for one in resource_claim.allocated or () if one.device in one.held and not one.shared)
