"""Read a ResourceClaim into a `ResourceClaimView`. Its author decides on the specification, drivers on the config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import to_json

from extender.domain.devices.cpu_order import read_order
from extender.domain.devices.resource_claims import MOST_DEVICES
from extender.domain.devices.views import (
    EXTENDED_RESOURCE_CLAIM,
    REMINDER_CLASS,
    REMINDER_PREFIX,
    AllocatedDevice,
    DeviceId,
    DeviceRequest,
    ResourceClaimView,
)
from extender.domain.views import Toleration
from extender.domain.wellknown import JOB_ID
from extender.kube.wire.fields import Fields, MalformedObject, parsed
from extender.kube.wire.json_text import TOO_DEEP
from extender.kube.wire.meta import controlling_owner

MOST_REQUESTS = 32
"""Requests, constraints and config entries of a ResourceClaim (`resource/v1/types.go`)."""

MOST_RESERVED = 256
"""Consumers of a ResourceClaim (`ResourceClaimReservedForMaxSize`)."""

LONGEST_CONFIG = 400_000
"""Characters of all config entries of one object together: the API server accepts 32 of 10 KiB each."""

KIND = "ResourceClaim"
_JOB_DIGITS = 10


def read_resource_claim(obj: Mapping[str, Any] | bytes | str) -> ResourceClaimView:
    """Read a ResourceClaim from its JSON, parsed or not.

    Its devices are read whatever else is malformed: they would look free. Raises MalformedObject where they cannot be.
    """
    found = parsed(KIND, obj) if isinstance(obj, bytes | str) else Fields(KIND, obj)
    meta, status = found.inner("metadata"), found.inner("status")
    held = ResourceClaimView(
        uid=meta.text("uid"),
        namespace=meta.text("namespace"),
        name=meta.text("name"),
        resource_version=meta.text("resourceVersion"),
        allocated=_allocated(status.inner("allocation")) if "allocation" in status else None,
    )
    try:
        return _completed(held, found)
    except MalformedObject as error:
        return replace(held, unreadable=error.fault)


def _completed(held: ResourceClaimView, found: Fields) -> ResourceClaimView:
    """Return the ResourceClaim with everything but its devices. Raises MalformedObject."""
    meta, devices, status = found.inner("metadata"), found.inner("spec").inner("devices"), found.inner("status")
    notes, owner = meta.strings("annotations"), controlling_owner(meta)
    reserved = status.each("reservedFor", MOST_RESERVED)[:MOST_RESERVED]
    job = notes.get(JOB_ID, "")
    return replace(
        held,
        requests=tuple(_request(one) for one in devices.each("requests", MOST_REQUESTS)[:MOST_REQUESTS]),
        constrained=devices.count("constraints") > 0,
        config=read_config(devices),
        configured_drivers=frozenset(one.inner("opaque").text("driver") for one in devices.each("config")),
        node=_node(status.inner("allocation")),
        reserved=tuple(one.text("uid") for one in reserved),
        job_id=int(job) if job.isascii() and job.isdigit() and len(job) <= _JOB_DIGITS else None,
        owner=owner.uid if owner is not None and owner.kind == "Pod" else "",
        finalizers=meta.texts("finalizers"),
        deleted=meta.instant("deletionTimestamp") is not None,
        extended=notes.get(EXTENDED_RESOURCE_CLAIM) == "true",
        reminds_of="" if reserved else _reminds_of(devices),
    )


def _reminds_of(devices: Fields) -> str:
    """Return which ResourceClaim a reminder is of. Its specification cannot be changed; labels and owners can."""
    requests = devices.each("requests", MOST_REQUESTS)
    if len(requests) != 1 or requests[0].inner("exactly").text("deviceClassName") != REMINDER_CLASS:
        return ""
    name = requests[0].text("name")
    return name.removeprefix(REMINDER_PREFIX) if name.startswith(REMINDER_PREFIX) else ""


def read_config(fields: Fields) -> tuple[str, ...]:
    """Return the entries of `config`, each as JSON. Raises MalformedObject where they are too long or too deep."""
    found = tuple(to_json(one).decode() for one in fields.maps("config")[: MOST_REQUESTS + 1])
    if len(found) > MOST_REQUESTS or sum(map(len, found)) > LONGEST_CONFIG:
        raise MalformedObject("config is longer than Kubernetes allows")
    if any(TOO_DEEP in one for one in found):
        raise MalformedObject(f"config is {TOO_DEEP}")
    return found


def _request(one: Fields) -> DeviceRequest:
    name = one.text("name")
    if one.count("firstAvailable"):
        return DeviceRequest(name, delegated="firstAvailable")
    exactly = one.inner("exactly")
    number, mode = exactly.number("count"), exactly.text("allocationMode") or "ExactCount"
    tolerations = exactly.maps("tolerations")
    unsupported = ", ".join(
        what
        for what, given in (
            ("selectors", exactly.count("selectors")),
            (f"allocationMode {mode}", mode != "ExactCount"),
        )
        if given
    )
    return DeviceRequest(
        name,
        exactly.text("deviceClassName"),
        1 if number is None else max(0, number),
        tuple(_toleration(entry) for entry in exactly.each("tolerations", MOST_REQUESTS)),
        to_json(tolerations).decode() if tolerations else "",
        capacity=tuple(exactly.inner("capacity").strings("requests").items()),
        delegated="adminAccess" if exactly.flag("adminAccess") else "",
        unsupported=unsupported,
    )


def _toleration(one: Fields) -> Toleration:
    return Toleration(one.text("key"), one.text("operator"), one.text("value"), one.text("effect"))


@dataclass(frozen=True, slots=True)
class _CpuEntry:
    """An entry of the configuration of an allocation that names CPUs (dra-driver-cpu)."""

    driver: str = ""
    """"": it may be of any driver."""

    requests: tuple[str, ...] = ()
    """Empty: it is for every request."""

    cpus: tuple[int, ...] = ()
    """Empty: they cannot be read."""

    def is_for(self, driver: str, request: str) -> bool:
        """Return whether it is for this request, whose name may have that of a subrequest after a slash."""
        named = not self.requests or not {request, request.partition("/")[0]}.isdisjoint(self.requests)
        return named and self.driver in {"", driver}


def _allocated(allocation: Fields) -> tuple[AllocatedDevice, ...]:
    devices = allocation.inner("devices")
    entries = _cpu_entries(devices)
    return tuple(_allocated_device(one, entries) for one in devices.each("results", MOST_DEVICES))


def _allocated_device(one: Fields, entries: Sequence[_CpuEntry]) -> AllocatedDevice:
    """Return a device. The author of the configuration can narrow only a share, and only to CPUs that can be read."""
    request, driver = one.text("request"), one.text("driver")
    shared = isinstance(one.value("shareID"), str)
    named = [entry for entry in entries if shared and entry.is_for(driver, request)]
    readable = all(entry.cpus and len(entry.requests) == 1 for entry in named)
    return AllocatedDevice(
        request,
        DeviceId(driver, one.text("pool"), one.text("device")),
        one.value("adminAccess") is True,
        tuple(sorted({cpu for entry in named for cpu in entry.cpus})) if readable else (),
        shared,
        unreadable_cpus=not readable,
    )


def _cpu_entries(devices: Fields) -> Sequence[_CpuEntry]:
    """Return the entries that name CPUs. The author of a ResourceClaim may have written anything as parameters."""
    try:
        config = devices.each("config", 2 * MOST_REQUESTS)[: 2 * MOST_REQUESTS]
        places = [(one.inner("opaque"), one.inner("opaque").text("driver"), one.texts("requests")) for one in config]
    except MalformedObject:
        return (_CpuEntry(),)
    found = []
    for opaque, driver, requests in places:
        cpus: tuple[int, ...] = ()
        with suppress(ValueError):
            parameters = opaque.inner("parameters")
            if "cpuConfig" not in parameters:
                continue
            cpus = read_order(parameters.inner("cpuConfig").text("cpuset"))
        found.append(_CpuEntry(driver, requests, cpus))
    return found


def _node(allocation: Fields) -> str:
    """Return the Node that the node selector names, "" where it says anything else."""
    terms = allocation.inner("nodeSelector").each("nodeSelectorTerms", 1)
    if len(terms) != 1 or terms[0].count("matchExpressions") or terms[0].count("matchFields") != 1:
        return ""
    field = terms[0].each("matchFields")[0]
    values = field.texts("values")
    named = field.text("key") == "metadata.name" and field.text("operator") == "In" and len(values) == 1
    return values[0] if named else ""
