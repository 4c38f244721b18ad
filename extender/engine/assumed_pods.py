"""Keep assumed Pods: bound, or being bound, and not seen on their Node by the watch yet."""

from __future__ import annotations

from collections.abc import Sequence

from extender.domain.placeholder import Placeholder
from extender.domain.ports import PodCache
from extender.domain.views import PodView


class AssumedPods:
    """They count against the room of their Node, as kube-scheduler counts its own assumed Pods."""

    def __init__(self, cache: PodCache) -> None:
        self._cache = cache
        self._bound: dict[str, set[str]] = {}
        """UIDs by Kubernetes node."""

    def stepped(self, before: Placeholder, after: Placeholder) -> None:
        """A unit changed."""
        if before.members is after.members:
            return
        for uid, node in _placed(before) - _placed(after):
            self._drop(node, uid)
        for uid, node in _placed(after):
            self._bound.setdefault(node, set()).add(uid)

    def there(self, node: str) -> Sequence[PodView]:
        """Every Pod on a Kubernetes node, also those of which only we know."""
        shown = self._cache.on_node(node)
        coming: list[PodView] = []
        for uid in sorted(self._bound.get(node, ())):
            pod = self._cache.get(uid)
            if pod is not None and not pod.node_name:
                coming.append(pod)
            else:
                self._drop(node, uid)
        return [*shown, *coming]

    def _drop(self, node: str, uid: str) -> None:
        bound = self._bound.get(node)
        if bound is not None:
            bound.discard(uid)
            if not bound:
                del self._bound[node]


def _placed(p: Placeholder) -> set[tuple[str, str]]:
    """The Pods of a unit that are on a node, or about to be, and that node."""
    members = ((m.ref.uid, m.node or p.node_of(m.ref.uid)) for m in p.members if m.placed)
    return {(uid, node) for uid, node in members if node}
