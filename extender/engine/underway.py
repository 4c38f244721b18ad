"""Pods that we bound, or are binding, and that the watch has not shown on their node yet: they hold a part of it."""

from __future__ import annotations

from collections.abc import Sequence

from extender.domain.placeholder import Placeholder
from extender.domain.views import PodView
from extender.ports import PodCache


class Underway:
    """Between a Binding and the watch's word of it another Pod may be looked at for the same node."""

    def __init__(self, cache: PodCache) -> None:
        self._cache = cache
        self._bound: dict[str, set[str]] = {}
        """UIDs by Kubernetes node."""

    def stepped(self, before: Placeholder, after: Placeholder) -> None:
        """A unit changed."""
        if before.members is after.members:
            return
        for member in after.members:
            uid, node = member.ref.uid, member.node or after.node_of(member.ref.uid)
            if member.placed and node:
                self._bound.setdefault(node, set()).add(uid)
            elif node in self._bound:
                self._bound[node].discard(uid)

    def there(self, node: str) -> Sequence[PodView]:
        """Every Pod on a Kubernetes node, also those of which only we know."""
        shown = self._cache.on_node(node)
        coming: list[PodView] = []
        for uid in sorted(self._bound.get(node, ())):
            pod = self._cache.get(uid)
            if pod is not None and not pod.node_name:
                coming.append(pod)
            else:
                self._bound[node].discard(uid)
        if node in self._bound and not self._bound[node]:
            del self._bound[node]
        return [*shown, *coming]
