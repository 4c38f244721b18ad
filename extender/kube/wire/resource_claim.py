"""Read a ResourceClaim into a `ResourceClaimView`. Its author decides on the specification, drivers on the config."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
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
    """Read a ResourceClaim from its JSON, parsed or not. Raises MalformedObject."""
    found = parsed(KIND, obj) if isinstance(obj, bytes | str) else Fields(KIND, obj)
    meta, devices, status = found.inner("metadata"), found.inner("spec").inner("devices"), found.inner("status")
    notes, owner = meta.strings("annotations"), controlling_owner(meta)
    reserved = status.each("reservedFor", MOST_RESERVED)[:MOST_RESERVED]
    job = notes.get(JOB_ID, "")
    return ResourceClaimView(
        uid=meta.text("uid"),
        namespace=meta.text("namespace"),
        name=meta.text("name"),
        resource_version=meta.text("resourceVersion"),
        requests=tuple(_request(one) for one in devices.each("requests", MOST_REQUESTS)[:MOST_REQUESTS]),
        constrained=devices.count("constraints") > 0,
        config=read_config(devices),
        configured_drivers=frozenset(one.inner("opaque").text("driver") for one in devices.each("config")),
        allocated=_allocated(status.inner("allocation")) if "allocation" in status else None,
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
    """Return the entries of `config`, each as JSON. Raises MalformedObject where they are too long for Kubernetes."""
    found = tuple(to_json(one).decode() for one in fields.maps("config")[: MOST_REQUESTS + 1])
    if len(found) > MOST_REQUESTS or sum(map(len, found)) > LONGEST_CONFIG:
        raise MalformedObject("config is longer than Kubernetes allows")
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


def _allocated(allocation: Fields) -> tuple[AllocatedDevice, ...]:
    devices = allocation.inner("devices")
    cpusets = _cpusets(devices)
    return tuple(
        AllocatedDevice(
            one.text("request"),
            DeviceId(one.text("driver"), one.text("pool"), one.text("device")),
            one.flag("adminAccess"),
            cpusets.get((one.text("driver"), one.text("request")), ()),
            "shareID" in one,
        )
        for one in devices.each("results", MOST_DEVICES)
    )


def _cpusets(devices: Fields) -> dict[tuple[str, str], tuple[int, ...]]:
    """Return the CPUs that the configuration of an allocation names, by driver and request (dra-driver-cpu)."""
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for one in devices.each("config", 2 * MOST_REQUESTS)[: 2 * MOST_REQUESTS]:
        opaque, requests = one.inner("opaque"), one.texts("requests")
        text = opaque.inner("parameters").inner("cpuConfig").text("cpuset")
        if text and len(requests) == 1:
            with suppress(ValueError):
                found[opaque.text("driver"), requests[0]] = tuple(sorted(read_order(text)))
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
