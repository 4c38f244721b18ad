"""Build the controllers of devices: ResourceClaims, and reminders of devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.assembly.adapters import Adapters
from extender.controllers.device_reminders import DeviceReminderController
from extender.controllers.devices.member_devices import MemberDevices
from extender.controllers.devices.pod_devices import PodDevices
from extender.controllers.devices.resource_claim_releases import ResourceClaimController
from extender.domain.placeholders import Placeholders
from extender.domain.pods.deferred_pods import DeferredPods
from extender.domain.views import PodView


class DeviceControllers:
    """`fresh`: return whether the informers are up to date.

    `reconsider` is called with Pods of whose ResourceClaims more is known.
    """

    def __init__(
        self,
        adapters: Adapters,
        placeholders: Placeholders,
        pods: PodDevices,
        members: MemberDevices,
        *,
        reconsider: Callable[[Sequence[PodView]], None],
        fresh: Callable[[], bool],
        deferred: DeferredPods,
    ) -> None:
        devices = adapters.informers.devices
        seen = devices.resource_claims
        self.resource_claims = ResourceClaimController(
            placeholders,
            pods,
            members,
            devices,
            adapters.announcer,
            find=seen.get,
            every=seen.all,
            namespace_of=seen.namespace_of,
            reconsider=reconsider,
            fresh=fresh,
            deferred=deferred,
        )
        self.reminders = DeviceReminderController(
            devices,
            adapters.resource_claims,
            find=seen.get,
            every=seen.all,
            namespace_of=seen.namespace_of,
            fresh=fresh,
        )
