"""Namespaces: from JSON to `NamespaceView`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from extender.domain.views import NamespaceView
from extender.kube.wire.meta import MetaWire, OddObject, Wire, explain


class NamespaceWire(Wire):
    """A Namespace."""

    metadata: MetaWire = MetaWire()

    def view(self) -> NamespaceView:
        """The same as a value of the domain."""
        meta = self.metadata
        return NamespaceView(meta.name or "", meta.uid or "", meta.resource_version or "", meta.labels or {})


def read_namespace(obj: Mapping[str, Any]) -> NamespaceView:
    """A Namespace from its JSON. Raises OddObject."""
    try:
        return NamespaceWire.model_validate(obj).view()
    except ValidationError as error:
        raise OddObject(f"not a Namespace: {explain(error)}") from error
