"""Represent ResourceClaims and ResourceSlices (`resource.k8s.io/v1`) with the fields that the extender needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from extender.domain.views import Taint, Toleration

EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a ResourceClaim that kube-scheduler makes for extended resources (`dynamicresources`)."""

RESOURCE_CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"
"""Finalizer of an allocated ResourceClaim (`resource/v1/types.go`)."""


REMINDER_CLASS = "device-reminder.slurm-extender.io"
"""The DeviceClass of reminders. It does not exist, so that nothing but the extender allocates them."""

REMINDER_PREFIX = "of-"
"""The one request of a reminder has this, and the UID of the ResourceClaim that it reminds of, as its name."""


@dataclass(frozen=True, slots=True, order=True)
class DeviceId:
    """The identity of a device in a cluster."""

    driver: str
    pool: str
    device: str

    @property
    def text(self) -> str:
        """Return it for messages."""
        return f"{self.device} of pool {self.pool} ({self.driver})"

    @property
    def whole(self) -> DeviceId:
        """Return the device of which this may be a single CPU. No name of a device has a slash."""
        return replace(self, device=self.device.partition("/")[0]) if "/" in self.device else self


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request of a ResourceClaim."""

    name: str
    device_class: str = ""
    """"": the request is a prioritized list."""

    count: int = 1
    tolerations: tuple[Toleration, ...] = ()
    tolerations_json: str = ""
    """The same as they are written, for the allocation; "": none."""

    capacity: tuple[tuple[str, str], ...] = ()
    """Requested amounts of capacities by their qualified names."""

    delegated: str = ""
    """The field that only kube-scheduler can honour, so that the ResourceClaim is left to it; "": none."""

    unsupported: str = ""
    """The field that makes Slurm's choice of a device impossible; "": none."""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device that is written in the allocation of a ResourceClaim."""

    request: str
    device: DeviceId
    admin: bool = False
    """It is used with adminAccess, beside its holder."""

    cpus: tuple[int, ...] = ()
    """The Linux CPUs of a shared device that the configuration of the allocation names, ascending."""

    shared: bool = field(default=False, compare=False)
    """Others may have a share of it too."""

    unreadable_cpus: bool = field(default=False, compare=False)
    """The configuration names CPUs of a shared device that cannot be read: any of them may be held."""

    @property
    def held(self) -> tuple[DeviceId, ...]:
        """Return what it keeps from others: the device, or single CPUs of it."""
        if self.admin:
            return ()
        if not self.shared or self.unreadable_cpus:
            return (self.device,)
        return tuple(replace(self.device, device=f"{self.device.device}/{cpu}") for cpu in self.cpus)


@dataclass(frozen=True, slots=True)
class ResourceClaimView:
    """A ResourceClaim."""

    uid: str
    namespace: str
    name: str
    resource_version: str = ""
    requests: tuple[DeviceRequest, ...] = ()
    constrained: bool = False
    """It has constraints over several devices."""

    config: tuple[str, ...] = ()
    """The entries of `spec.devices.config`, each as JSON."""

    configured_drivers: frozenset[str] = frozenset()
    """The drivers that these entries are for."""

    allocated: tuple[AllocatedDevice, ...] | None = None
    """The devices of `status.allocation`; `None`: it is not allocated."""

    node: str = ""
    """The Node that the allocation names, if it names exactly one."""

    reserved: tuple[str, ...] = ()
    """UIDs of the objects for which it is reserved."""

    job_id: int | None = None
    """The placeholder job for which the extender wrote the allocation."""

    owner: str = ""
    """UID of the Pod that controls it; "": it was created by itself."""

    finalizers: tuple[str, ...] = ()
    deleted: bool = False
    extended: bool = False
    """kube-scheduler made it for extended resources of a Pod (KEP-5004)."""

    reminds_of: str = ""
    """UID of the ResourceClaim of which it is a reminder (`ResourceClaims.remind`); "": it is none.

    One that a Pod uses is a ResourceClaim like others."""

    unreadable: str = ""
    """The fault of a field that could not be read, so that nothing but its identity and its devices is known; "": none.
    """

    @property
    def full_name(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def devices(self) -> frozenset[DeviceId]:
        """Return the devices that it keeps from others."""
        return frozenset(held for one in self.allocated or () for held in one.held)


@dataclass(frozen=True, slots=True)
class ResourceClaimAllocation:
    """An allocation to be written into a ResourceClaim."""

    devices: tuple[AllocatedDevice, ...]
    node: str
    job_id: int
    class_config: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """For each request, by name, the entries of `spec.config` of its DeviceClass, each as JSON."""


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """A device of a ResourceSlice."""

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    """The values as text, whatever their type."""

    taints: tuple[Taint, ...] = ()
    unsupported: str = ""
    """The field that makes it no device of its own, such as counters that it shares with others; "": none."""


@dataclass(frozen=True, slots=True)
class ResourceSliceView:
    """A ResourceSlice."""

    uid: str
    name: str
    resource_version: str = ""
    driver: str = ""
    pool: str = ""
    generation: int = 0
    slices: int = 1
    """How many ResourceSlices the pool has in this generation."""

    node: str = ""
    """The Node of all of its devices; "": they are not of one Node."""

    devices: tuple[SliceDevice, ...] = ()
