"""Index which ResourceClaims hold which devices. The API server checks nothing: it accepts two holders of a device."""

from __future__ import annotations

from extender.domain.devices.views import DeviceId, ResourceClaimView


class DeviceHolders:
    """Keep the allocated ResourceClaims by device, those too that are being written."""

    def __init__(self) -> None:
        self._resource_claims: dict[str, ResourceClaimView] = {}
        self._holders: dict[DeviceId, set[str]] = {}
        self._assumed: dict[str, frozenset[DeviceId]] = {}
        self._reminders: dict[str, set[str]] = {}
        """UIDs of the reminders of each ResourceClaim."""

    def put(self, resource_claim: ResourceClaimView) -> None:
        """Take over what a ResourceClaim holds now."""
        self.drop(resource_claim.uid)
        if resource_claim.devices:
            self._resource_claims[resource_claim.uid] = resource_claim
            for device in resource_claim.devices:
                self._holders.setdefault(device, set()).add(resource_claim.uid)
            if resource_claim.reminds_of:
                self._reminders.setdefault(resource_claim.reminds_of, set()).add(resource_claim.uid)

    def drop(self, uid: str) -> None:
        """Forget a ResourceClaim that is gone."""
        if (old := self._resource_claims.pop(uid, None)) is not None:
            for device in old.devices:
                holders = self._holders[device]
                holders.discard(uid)
                if not holders:
                    del self._holders[device]
            if reminders := self._reminders.get(old.reminds_of):
                reminders.discard(uid)
                if not reminders:
                    del self._reminders[old.reminds_of]

    def assume(self, uid: str, devices: frozenset[DeviceId]) -> None:
        """Count devices as held by a ResourceClaim from before its write until the watch shows it; none: not any more.

        Two grants must not be given one device in between.
        """
        self._assumed.pop(uid, None)
        if devices:
            self._assumed[uid] = devices

    def is_being_written(self, uid: str) -> bool:
        """Return whether the devices of a ResourceClaim are being written."""
        return uid in self._assumed

    def others(self, device: DeviceId, uid: str) -> tuple[str, ...]:
        """Return the UIDs of all holders of a device except one ResourceClaim and its reminders.

        Who holds a device as a whole holds each CPU of it.
        """
        places = {device, device.whole}
        found = {uid for place in places for uid in self._holders.get(place, ())}
        found |= {one for one, held in self._assumed.items() if not places.isdisjoint(held)}
        return tuple(sorted(found - {uid} - self._reminders.get(uid, set())))

    def reminders(self, uid: str) -> tuple[str, ...]:
        """Return the UIDs of the reminders of a ResourceClaim."""
        return tuple(sorted(self._reminders.get(uid, ())))

    def resource_claim(self, uid: str) -> ResourceClaimView | None:
        """Return a ResourceClaim that holds devices."""
        return self._resource_claims.get(uid)


def is_in_use(reminder: ResourceClaimView, holder: ResourceClaimView | None) -> bool:
    """Return whether `holder`, the ResourceClaim that it reminds of, holds the device of a reminder still."""
    return holder is not None and holder.allocated is not None and reminder.devices <= holder.devices
