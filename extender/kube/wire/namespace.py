"""Reads a Namespace into a `NamespaceView`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extender.domain.views import NamespaceView
from extender.kube.wire.fields import Fields


def read_namespace(obj: Mapping[str, Any]) -> NamespaceView:
    """Read a Namespace from its JSON. Raises MalformedObject."""
    meta = Fields("Namespace", obj).inner("metadata")
    return NamespaceView(meta.text("name"), meta.text("uid"), meta.text("resourceVersion"), meta.strings("labels"))
