"""Mirror ResourceClaims and ResourceSlices where the configuration maps devices. Implements `ports.DeviceCache`.

Without a map not one request of dynamic resource allocation is sent, and no right to it is needed.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

from extender.domain.devices.device_map import DeviceMap
from extender.domain.devices.holders import DeviceHolders
from extender.domain.devices.pools import DevicePools
from extender.domain.devices.views import ResourceClaimView, ResourceSliceView
from extender.domain.ports import DeviceCache
from extender.kube.connection import ApiConnection
from extender.kube.reflector import Reflector
from extender.kube.store import DeviceClassStore, Store
from extender.kube.wire.stream import RESOURCE_CLAIM, RESOURCE_SLICE

RESOURCE_API = "/apis/resource.k8s.io/v1"
"""Kubernetes 1.34 and later."""


class ResourceClaimStore(Store[ResourceClaimView]):
    """Every ResourceClaim, also by name and by device."""

    def __init__(self) -> None:
        super().__init__()
        self.holders = DeviceHolders()
        self._by_name: dict[tuple[str, str], ResourceClaimView] = {}

    def named(self, namespace: str, name: str) -> ResourceClaimView | None:
        """Return a ResourceClaim by its name."""
        return self._by_name.get((namespace, name))

    def namespace_of(self, uid: str) -> str:
        """Return the namespace of a ResourceClaim; "": there is none with this UID."""
        resource_claim = self.get(uid)
        return "" if resource_claim is None else resource_claim.namespace

    def _index(self, view: ResourceClaimView) -> None:
        self._by_name[view.namespace, view.name] = view
        self.holders.put(view)

    def _unindex(self, view: ResourceClaimView) -> None:
        self.holders.drop(view.uid)
        if (there := self._by_name.get((view.namespace, view.name))) is not None and there.uid == view.uid:
            del self._by_name[view.namespace, view.name]


class ResourceSliceStore(Store[ResourceSliceView]):
    """Every ResourceSlice, by pool."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = DevicePools()

    def _index(self, view: ResourceSliceView) -> None:
        self.pools.put(view)

    def _unindex(self, view: ResourceSliceView) -> None:
        self.pools.drop(view)


class DeviceInformers:
    """The informers of ResourceClaims and ResourceSlices. `classes` has the DeviceClasses."""

    def __init__(
        self, connection: ApiConnection, device_map: DeviceMap, classes: DeviceClassStore, *, rng: random.Random
    ) -> None:
        self.device_map = device_map
        self.resource_claims = ResourceClaimStore()
        self.slices = ResourceSliceStore()
        self._classes = classes
        self._news = asyncio.Event()
        self.resource_claims.on_change(self._resource_claim_changed)
        self._reflectors: tuple[Reflector[ResourceClaimView] | Reflector[ResourceSliceView], ...] = (
            Reflector(
                connection,
                f"{RESOURCE_API}/resourceclaims",
                RESOURCE_CLAIM,
                self.resource_claims,
                rng=rng,
                optional=True,
            ),
            Reflector(
                connection, f"{RESOURCE_API}/resourceslices", RESOURCE_SLICE, self.slices, rng=rng, optional=True
            ),
        )

    @property
    def pools(self) -> DevicePools:
        """Return the devices that drivers publish."""
        return self.slices.pools

    @property
    def holders(self) -> DeviceHolders:
        """Return the ResourceClaims that hold devices."""
        return self.resource_claims.holders

    @property
    def trouble(self) -> str:
        """Return why devices may be outdated; "": they are up to date, or their kinds are not served."""
        return "; ".join(filter(None, (one.status.trouble for one in self._reflectors))) if self.device_map else ""

    @property
    def synced(self) -> bool:
        """Return whether the ResourceClaims and ResourceSlices at the start are known."""
        return not self.device_map or (self.resource_claims.synced and self.slices.synced)

    def resource_claim(self, namespace: str, name: str) -> ResourceClaimView | None:
        """Return a ResourceClaim by its name."""
        return self.resource_claims.named(namespace, name)

    def class_of(self, resource: str) -> str:
        """Return the DeviceClass that offers an extended resource; "" for none."""
        return self._classes.class_of(resource) if self.device_map else ""

    def class_config(self, device_class: str) -> tuple[str, ...]:
        """Return the entries of `spec.config` of a DeviceClass, each as JSON."""
        found = self._classes.named(device_class)
        return () if found is None else found.config

    async def passed(self, uid: str, version: str, within_s: float) -> bool:
        """Wait until the watch has shown a ResourceClaim in this version, or a later one. False: it did not in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not self._is_shown(uid, version):
                    await self._news.wait()
                return True
        return False

    async def wait_synced(self) -> None:
        """Wait for the first lists."""
        if self.device_map:
            await self.resource_claims.wait_synced()
            await self.slices.wait_synced()

    async def relist(self) -> None:
        """List all of them once more, independently of the watches."""
        if self.device_map:
            await asyncio.gather(*(one.relist() for one in self._reflectors))

    async def run(self) -> None:
        """Mirror until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run(), name="devices")

    def _is_shown(self, uid: str, version: str) -> bool:
        found = self.resource_claims.get(uid)
        if found is None:
            return False
        shown = found.resource_version
        return shown == version or (shown.isdecimal() and version.isdecimal() and int(shown) >= int(version))

    def _resource_claim_changed(self, _old: ResourceClaimView | None, _new: ResourceClaimView | None) -> None:
        self._news.set()
        self._news = asyncio.Event()


_DEVICE_INFORMERS_ARE_A_DEVICE_CACHE: type[DeviceCache] = DeviceInformers
