"""Nodes of the real parts with labels, taints or a cordon for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lab.site import Site


@contextmanager
def changed(site: Site, patches: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Patch nodes with labels, taints or a cordon for the time of the block."""
    try:
        for node, patch in patches.items():
            site.patch_node(node, patch)
        yield
    finally:
        for node, patch in patches.items():
            labels = dict.fromkeys(patch.get("metadata", {}).get("labels", {}))
            site.patch_node(node, {"metadata": {"labels": labels}, "spec": {"unschedulable": None, "taints": None}})
