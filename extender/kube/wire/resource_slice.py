"""Read a ResourceSlice into a `ResourceSliceView`. Drivers write them, one or more for each Node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extender.domain.devices.views import ResourceSliceView, SliceDevice
from extender.domain.views import Taint
from extender.kube.wire.fields import Fields, MalformedObject

MOST_OF_SLICE = 128
"""Devices of one ResourceSlice (`ResourceSliceMaxDevices`)."""

MOST_ATTRIBUTES = 32
"""Attributes of one device; and taints, of which Kubernetes allows 16."""

LONGEST_ATTRIBUTE = 64
"""Characters of the value of an attribute (`DeviceAttributeMaxValueLength`)."""

_UNSUPPORTED = ("consumesCounters", "allowMultipleAllocations", "bindingConditions")
"""Fields that make a device a part of another one, one for several Pods, or one that is prepared before the Binding."""


def read_resource_slice(obj: Mapping[str, Any]) -> ResourceSliceView:
    """Read a ResourceSlice from its JSON. Raises MalformedObject."""
    found = Fields("ResourceSlice", obj)
    meta, spec = found.inner("metadata"), found.inner("spec")
    pool, devices = spec.inner("pool"), spec.each("devices", MOST_OF_SLICE)
    if len(devices) > MOST_OF_SLICE:
        raise MalformedObject(f"not a ResourceSlice: it has more than {MOST_OF_SLICE} devices")
    return ResourceSliceView(
        uid=meta.text("uid"),
        name=meta.text("name"),
        resource_version=meta.text("resourceVersion"),
        driver=spec.text("driver"),
        pool=pool.text("name"),
        generation=pool.number("generation") or 0,
        slices=pool.number("resourceSliceCount") or 1,
        node=spec.text("nodeName"),
        devices=tuple(_slice_device(one) for one in devices),
    )


def _slice_device(one: Fields) -> SliceDevice:
    attributes = one.inner("attributes")
    return SliceDevice(
        one.text("name"),
        {name: _value(attributes.inner(name)) for name in attributes.given()[:MOST_ATTRIBUTES]},
        tuple(
            Taint(taint.text("key"), taint.text("effect"), taint.text("value"))
            for taint in one.each("taints", MOST_ATTRIBUTES)
        ),
        ", ".join(name for name in _UNSUPPORTED if one.value(name)),
    )


def _value(attribute: Fields) -> str:
    """Return the value of an attribute as text; it has one of four types."""
    number = attribute.number("int")
    if number is not None:
        return str(number)
    if "bool" in attribute:
        return str(attribute.flag("bool")).lower()
    return (attribute.text("string") or attribute.text("version"))[:LONGEST_ATTRIBUTE]
