"""Derive the GRES of a Pod from its ResourceClaims, as far as the device map knows their DeviceClasses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from extender.domain.devices.device_map import CpuLine, DeviceLine, DeviceMap
from extender.domain.devices.views import DeviceRequest, ResourceClaimView
from extender.domain.pods.requests import CLASS_RESOURCE, CPU, pod_requests
from extender.domain.quantity import ONE, parse, whole_up
from extender.domain.translation.qos import pinned
from extender.domain.views import PodResourceClaim, PodView

MOST_DEVICES = 32
"""Devices of one ResourceClaim (`AllocationResultsMaxSize`); the API server accepts no larger allocation."""


@dataclass(frozen=True, slots=True)
class ResourceClaimReading:
    """The result for all ResourceClaims of a Pod."""

    translated: tuple[ResourceClaimView, ...] = ()
    """Those for which Slurm chooses the devices, in the order of the Pod."""

    gres: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    """Why no job can be submitted, a sentence each."""

    delegated: tuple[str, ...] = ()
    """A sentence for each ResourceClaim that is left to kube-scheduler."""

    missing: tuple[str, ...] = ()
    """A text for each ResourceClaim that does not exist, with what to do: nothing is decided before."""


Find = Callable[[str, str], ResourceClaimView | None]
"""Return a ResourceClaim by namespace and name."""


def read_resource_claims(
    pod: PodView, find: Find, users: Callable[[str, str], Iterable[PodView]], device_map: DeviceMap
) -> ResourceClaimReading:
    """Read the ResourceClaims of a Pod. `users` returns the Pods that name a ResourceClaim and have not ended.

    No more than two of them are needed: thousands may name the same one.
    """
    translated: list[ResourceClaimView] = []
    gres: dict[str, int] = {}
    faults: list[str] = []
    delegated: list[str] = []
    missing: list[str] = []
    for entry in pod.resource_claims:
        if entry.needless:
            continue
        resource_claim = find(pod.namespace, entry.resource_claim) if entry.resource_claim else None
        if resource_claim is None or resource_claim.deleted:
            missing.append(_missing(pod, entry, resource_claim))
            continue
        if resource_claim.unreadable:
            why = f"ResourceClaim {resource_claim.full_name} cannot be read: {resource_claim.unreadable}"
            faults.append(f"{why}; recreate it without that")
            continue
        named = users(resource_claim.namespace, resource_claim.name)
        other = next((one for one in named if one.uid != pod.uid), None)
        if why := _delegated(pod, resource_claim, other, device_map):
            delegated.append(f"ResourceClaim {resource_claim.full_name}: {why}")
            continue
        translated.append(resource_claim)
        faults += _faults(resource_claim, device_map)
        for request in resource_claim.requests:
            line = device_map.line_of(request.device_class)
            if line is not None:
                gres[line.gres] = gres.get(line.gres, 0) + request.count
    faults += _too_many_cpus(pod, translated, device_map)
    return ResourceClaimReading(tuple(translated), gres, tuple(faults), tuple(delegated), tuple(missing))


def extended_requests(pod: PodView, class_of: Callable[[str], str], device_map: DeviceMap) -> tuple[DeviceRequest, ...]:
    """Return the requests for devices that the Pod's extended resources stand for, as far as the map knows them.

    `class_of` returns the DeviceClass that offers an extended resource, "" for none.
    """
    try:
        requested = pod_requests(pod)
    except ValueError:
        return ()
    found = []
    for resource in sorted(requested):
        name = device_class_of(resource, class_of)
        if name and device_map.line_of(name) is not None and (count := whole_up(requested[resource])) > 0:
            found.append(DeviceRequest(resource, name, count))
    return tuple(found)


def device_class_of(resource: str, class_of: Callable[[str], str]) -> str:
    """Return the DeviceClass that stands behind an extended resource, "" for none."""
    return resource.removeprefix(CLASS_RESOURCE) if resource.startswith(CLASS_RESOURCE) else class_of(resource)


def lines_of_requests(
    requests: Sequence[DeviceRequest], device_map: DeviceMap
) -> list[tuple[DeviceRequest, DeviceLine]]:
    """Return each request with its line; requests of other DeviceClasses are left out."""
    return [(one, line) for one in requests if (line := device_map.line_of(one.device_class)) is not None]


def _missing(pod: PodView, entry: PodResourceClaim, resource_claim: ResourceClaimView | None) -> str:
    """Return that a ResourceClaim does not exist, or is being deleted, and what to do."""
    if not entry.resource_claim:
        template = f"ResourceClaimTemplate {pod.namespace}/{entry.template}"
        return (
            f"Kubernetes has not created the ResourceClaim for {entry.name} of Pod {pod.full_name} yet. Check that "
            f"{template} exists and that kube-controller-manager runs."
        )
    named = f"ResourceClaim {pod.namespace}/{entry.resource_claim}"
    if resource_claim is not None:
        return f"{named} of Pod {pod.full_name} is being deleted. Recreate it once it is gone, or delete the Pod."
    if entry.template:
        return (
            f"{named} of Pod {pod.full_name} was deleted. Delete and recreate the Pod if kube-controller-manager does "
            "not create another one."
        )
    return f"{named}, which Pod {pod.full_name} names, does not exist. Create it, or delete the Pod."


def is_of_cpus(resource_claim: ResourceClaimView, device_map: DeviceMap) -> bool:
    """Return whether a ResourceClaim is for CPUs that Slurm chooses."""
    return any(device_map.is_cpus(one.device_class) for one in resource_claim.requests)


def cpus_of_request(request: DeviceRequest, line: CpuLine) -> int:
    """Return how many CPUs a request is for; 0 where it names no whole number of them."""
    text = dict(request.capacity).get(line.capacity, "")
    try:
        amount = parse(text) if text else 0
    except ValueError:
        return 0
    return amount // ONE if amount > 0 and amount % ONE == 0 else 0


def _delegated(pod: PodView, resource_claim: ResourceClaimView, other: PodView | None, device_map: DeviceMap) -> str:
    """Return why kube-scheduler alone allocates a ResourceClaim, "" where Slurm does."""
    if any(one.delegated for one in resource_claim.requests):
        return next(f"request {one.name} has {one.delegated}" for one in resource_claim.requests if one.delegated)
    if not any(device_map.knows(one.device_class) for one in resource_claim.requests):
        names = ", ".join(sorted({one.device_class for one in resource_claim.requests})) or "none"
        return f"no line of devices names its DeviceClass ({names})"
    if is_of_cpus(resource_claim, device_map) and not _is_pinned(pod):
        return "the Pod is not of QoS class Guaranteed with whole CPUs"
    if other is not None:
        return f"Pod {other.full_name} uses it too"
    if (
        resource_claim.allocated is not None
        and resource_claim.job_id is None
        and not set(resource_claim.reserved) <= {pod.uid}
    ):
        return "another object uses it already"
    return ""


def _faults(resource_claim: ResourceClaimView, device_map: DeviceMap) -> list[str]:
    where = f"ResourceClaim {resource_claim.full_name}"
    faults = [
        f"{where}: request {one.name} has {one.unsupported}, which Slurm cannot honour; remove it, or request a GRES "
        "type by a DeviceClass of its own"
        for one in resource_claim.requests
        if one.unsupported
    ]
    of_cpus = is_of_cpus(resource_claim, device_map)
    faults += [
        f"{where}: no line of devices names DeviceClass {one.device_class} of request {one.name}, but one names "
        "another of its DeviceClasses; put them in two ResourceClaims"
        for one in resource_claim.requests
        if not (device_map.is_cpus(one.device_class) if of_cpus else device_map.line_of(one.device_class))
    ]
    if of_cpus and device_map.cpus is not None:
        return faults + _cpu_faults(where, resource_claim, device_map.cpus)
    faults += [
        f"{where}: request {one.name} has capacity, which Slurm cannot honour; remove it"
        for one in resource_claim.requests
        if one.capacity
    ]
    if resource_claim.constrained:
        faults.append(f"{where} has constraints, which Slurm cannot honour; remove them")
    if sum(one.count for one in resource_claim.requests) > MOST_DEVICES:
        faults.append(f"{where} requests more than {MOST_DEVICES} devices, the most that an allocation may have")
    return faults


def _is_pinned(pod: PodView) -> bool:
    """Return whether the Pod is Guaranteed, and its CPUs are whole."""
    try:
        return bool(pinned(pod)) and pod_requests(pod).get(CPU, 0) % ONE == 0
    except ValueError:
        return False


def _cpu_faults(where: str, resource_claim: ResourceClaimView, line: CpuLine) -> list[str]:
    faults = [
        f"{where}: request {one.name} must have count 1, and a whole number of CPUs as its one capacity {line.capacity}"
        for one in resource_claim.requests
        if one.count != 1 or len(one.capacity) != 1 or not cpus_of_request(one, line)
    ]
    if resource_claim.constrained:
        faults.append(f"{where} has constraints, which Slurm cannot honour; remove them")
    if line.driver in resource_claim.configured_drivers:
        faults.append(f"{where} has a config for driver {line.driver}, where Slurm's CPUs are written; remove it")
    return faults


def _too_many_cpus(pod: PodView, resource_claims: Sequence[ResourceClaimView], device_map: DeviceMap) -> list[str]:
    """Return a sentence if ResourceClaims are for more CPUs than the Pod requests, which are those of its job."""
    line = device_map.cpus
    if line is None:
        return []
    wanted = sum(cpus_of_request(one, line) for resource_claim in resource_claims for one in resource_claim.requests)
    try:
        requested = whole_up(pod_requests(pod).get(CPU, 0)) if wanted else 0
    except ValueError:
        return []
    if wanted <= requested:
        return []
    return [f"its ResourceClaims request {wanted} CPUs and its containers {requested}; request as many in both"]
