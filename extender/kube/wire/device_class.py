"""Reads a DeviceClass into a `DeviceClassView`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extender.domain.views import DeviceClassView
from extender.kube.wire.fields import Fields


def read_device_class(obj: Mapping[str, Any]) -> DeviceClassView:
    """Read a DeviceClass from its JSON. Raises OddObject."""
    found = Fields("DeviceClass", obj)
    meta, named = found.inner("metadata"), found.inner("spec").text("extendedResourceName")
    return DeviceClassView(meta.text("name"), meta.text("uid"), meta.text("resourceVersion"), named)
