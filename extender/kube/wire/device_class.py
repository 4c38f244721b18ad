"""Reads a DeviceClass into a `DeviceClassView`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extender.domain.views import DeviceClassView
from extender.kube.wire.fields import Fields
from extender.kube.wire.resource_claim import read_config


def read_device_class(obj: Mapping[str, Any]) -> DeviceClassView:
    """Read a DeviceClass from its JSON. Raises MalformedObject."""
    found = Fields("DeviceClass", obj)
    meta, spec = found.inner("metadata"), found.inner("spec")
    resource = spec.text("extendedResourceName")
    return DeviceClassView(
        meta.text("name"), meta.text("uid"), meta.text("resourceVersion"), resource, read_config(spec)
    )
