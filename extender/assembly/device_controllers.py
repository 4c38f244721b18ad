"""Make the controllers of ResourceClaims and of the reminders of devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.controllers.device_reminders import DeviceReminderController
from extender.controllers.resource_claims import ResourceClaimController
from extender.domain.ports import Announcer, ResourceClaims
from extender.domain.views import PodView
from extender.engine.devices.member_devices import MemberDevices
from extender.engine.devices.pod_devices import PodDevices
from extender.engine.placeholder_index import PlaceholderIndex
from extender.kube.devices import DeviceInformers


def resource_claims(
    placeholders: PlaceholderIndex,
    pods: PodDevices,
    members: MemberDevices,
    devices: DeviceInformers,
    announcer: Announcer,
    *,
    reconsider: Callable[[Sequence[PodView]], None],
    fresh: Callable[[], bool],
) -> ResourceClaimController:
    """Return the controller that writes and releases the devices of ResourceClaims."""
    return ResourceClaimController(
        placeholders,
        pods,
        members,
        devices,
        announcer,
        find=devices.claims.get,
        every=devices.claims.all,
        reconsider=reconsider,
        fresh=fresh,
    )


def device_reminders(
    devices: DeviceInformers, claims: ResourceClaims, fresh: Callable[[], bool]
) -> DeviceReminderController:
    """Return the controller that brings forgotten devices back to kube-schedulers."""
    return DeviceReminderController(devices, claims, find=devices.claims.get, every=devices.claims.all, fresh=fresh)
