"""DeviceClasses: from JSON to `DeviceClassView`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from extender.domain.views import DeviceClassView
from extender.kube.wire.meta import MetaWire, OddObject, Wire, explain


class DeviceClassSpecWire(Wire):
    """`spec`."""

    extended_resource_name: str | None = None


class DeviceClassWire(Wire):
    """A DeviceClass."""

    metadata: MetaWire = MetaWire()
    spec: DeviceClassSpecWire = DeviceClassSpecWire()

    def view(self) -> DeviceClassView:
        """The same as a value of the domain."""
        meta = self.metadata
        named = self.spec.extended_resource_name or ""
        return DeviceClassView(meta.name or "", meta.uid or "", meta.resource_version or "", named)


def read_device_class(obj: Mapping[str, Any]) -> DeviceClassView:
    """A DeviceClass from its JSON. Raises OddObject."""
    try:
        return DeviceClassWire.model_validate(obj).view()
    except ValidationError as error:
        raise OddObject(f"not a DeviceClass: {explain(error)}") from error
