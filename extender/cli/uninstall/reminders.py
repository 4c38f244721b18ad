"""Delete the ResourceClaims by which the extender reminds kube-schedulers of devices."""

from __future__ import annotations

from extender.cli.uninstall.actions import ActionLog, each
from extender.cli.uninstall.inventory import Inventory
from extender.domain.devices.views import ResourceClaimView
from extender.kube.resource_claims import ResourceClaimWriter


class ReminderCleanup:
    """The ResourceClaims that they remind of, and what Pods use, stay."""

    def __init__(self, actions: ActionLog, writer: ResourceClaimWriter) -> None:
        self._actions = actions
        self._writer = writer

    async def delete(self, found: Inventory) -> None:
        """Delete all reminders."""
        await each(found.reminders, self._delete)

    async def _delete(self, reminder: ResourceClaimView) -> None:
        async def remove() -> str:
            await self._writer.remove(reminder)
            return ""

        await self._actions.do(f"delete ResourceClaim {reminder.full_name}", remove)
