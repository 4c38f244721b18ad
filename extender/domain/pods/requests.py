"""Count the requests of a Pod as kube-scheduler and kubelet do.

The rules are those of `k8s.io/component-helpers/resource` PodRequests, and of the API server's defaulting
(`pkg/apis/core/v1/defaults.go`), which fills requests from limits: a Pod read from a file has not passed through it.
Quantities are billionths, see `quantity`.
"""

from __future__ import annotations

from collections.abc import Mapping

from extender.domain.quantity import parse
from extender.domain.views import Container, PodView

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
HUGEPAGES_PREFIX = "hugepages-"
CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""Prefix of a resource that requests devices of the DeviceClass named behind it (`resource/v1/types.go`)."""

_RESIZED = frozenset({CPU, MEMORY})
"""Resources that can be resized while a Pod runs."""


def pod_requests(pod: PodView) -> dict[str, int]:
    """Return the effective requests by resource, overhead included. Resources without a request are absent.

    Raises `ValueError`, naming the place, if a quantity cannot be read.
    """
    total: dict[str, int] = {}
    for container in pod.containers:
        _add(total, _container_requests(pod, container))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in pod.init_containers:
        requested = _container_requests(pod, container)
        if container.sidecar:
            # A sidecar runs on beside everything that comes after it (KEP-753).
            _add(total, requested)
            _add(sidecars, requested)
            _raise_to(starting, sidecars)
        else:
            _add(requested, sidecars)
            _raise_to(starting, requested)
    _raise_to(total, starting)
    total |= _pod_level(pod, total)
    _add(total, _read(pod.overhead, "spec.overhead"))
    return total


def requested_resources(pod: PodView) -> frozenset[str]:
    """Return the names of the resources that its containers request, whatever the amounts."""
    containers = (*pod.containers, *pod.init_containers)
    return frozenset(name for one in containers for name in (*one.requests, *one.limits))


def _pod_level(pod: PodView, containers: Mapping[str, int]) -> dict[str, int]:
    # KEP-2837: only these may be given for the Pod as a whole. A limit counts as request where nothing else is said.
    where = "spec.resources.requests"
    whole = _resizing(_read(pod.pod_requests, where), pod.pod_held, refused=pod.resize_refused, where=where)
    requested = {name: size for name, size in whole.items() if _shared(name)} if pod.pod_requests else {}
    for name, size in _read(pod.pod_limits, "spec.resources.limits").items():
        if _shared(name) and name not in requested and name not in containers:
            requested[name] = size
    return requested


def _shared(resource: str) -> bool:
    return resource in {CPU, MEMORY} or resource.startswith(HUGEPAGES_PREFIX)


def _container_requests(pod: PodView, container: Container) -> dict[str, int]:
    where = f"container {container.name}: resources"
    requested = _read({**container.limits, **container.requests}, where)
    return _resizing(requested, container.held, refused=pod.resize_refused, where=where)


def _resizing(
    requested: dict[str, int], held: tuple[Mapping[str, str], ...], *, refused: bool, where: str
) -> dict[str, int]:
    """Return the maximum of requested, allocated and actual amounts: during a resize in place any may be in use.

    As `determineContainerReqs`: of a resize that kubelet has refused, what it asks for does not count (KEP-1287).
    """
    amounts = [_read(one, where) for one in held]
    for name in _RESIZED & requested.keys():
        if given := [one[name] for one in amounts if name in one]:
            requested[name] = max(given) if refused else max(requested[name], *given)
    return requested


def _read(quantities: Mapping[str, str], where: str) -> dict[str, int]:
    found = {}
    for name, text in quantities.items():
        try:
            found[name] = parse(text)
        except ValueError as why:
            raise ValueError(f"{where}: {name}: {why}") from None
    return found


def _add(to: dict[str, int], more: Mapping[str, int]) -> None:
    for name, size in more.items():
        to[name] = to.get(name, 0) + size


def _raise_to(to: dict[str, int], least: Mapping[str, int]) -> None:
    for name, size in least.items():
        to[name] = max(to.get(name, size), size)
