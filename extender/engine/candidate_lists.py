"""Lists of nodes that kube-scheduler offered, each kept once: a thousand Pods are mostly offered the same thousand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

KEPT = 256


class CandidateLists:
    """The lists seen last."""

    def __init__(self) -> None:
        self._known: OrderedDict[frozenset[str], frozenset[str]] = OrderedDict()

    def one(self, nodes: Collection[str]) -> frozenset[str]:
        """The same nodes, as the object that was given out for them before."""
        new = frozenset(nodes)
        known = self._known.setdefault(new, new)
        self._known.move_to_end(known)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return known
