"""Delete the ResourceClaims by which the extender reminds kube-schedulers of devices."""

from __future__ import annotations

from extender.cli.uninstall.actions import ActionLog, each
from extender.cli.uninstall.inventory import Inventory
from extender.domain.devices.views import ResourceClaimView
from extender.kube.resource_claims import ResourceClaimWriter


class ReminderCleanup:
    """The ResourceClaims that they remind of, and what Pods use, stay.

    So does a reminder of a device that its ResourceClaim holds still: kube-schedulers would forget that device, and
    give it to another Pod. Kubernetes deletes it with that ResourceClaim.
    """

    def __init__(self, actions: ActionLog, writer: ResourceClaimWriter) -> None:
        self._actions = actions
        self._writer = writer

    async def delete(self, found: Inventory) -> None:
        """Delete the reminders of devices that are free."""
        await each((one for one in found.reminders if one.uid not in found.reminders_in_use), self._delete)
        for one in found.reminders:
            if one.uid in found.reminders_in_use:
                self._actions.keep(f"ResourceClaim {one.full_name}, which is deleted with the one that it reminds of")

    async def _delete(self, reminder: ResourceClaimView) -> None:
        async def remove() -> str:
            await self._writer.remove(reminder)
            return ""

        await self._actions.do(f"delete ResourceClaim {reminder.full_name}", remove)
