"""Pods that were removed although no kubelet said that their containers have ended: what is known, and what proves it.

A forced deletion, or the garbage collector of Pods, removes the object and nothing else. Where kubelet lives it hears
of that and ends the containers, and gives them the Pod's own grace (`pod_workers.go`, calculateEffectiveGracePeriod: a
forced deletion counts as none given). So its word is: the Node is Ready, kubelet has written so after the removal, and
the grace is over since. A kubelet that was away hears of it when it is back, which that covers as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from extender.domain.views import NodeView

SETTLE_S = 10.0
"""What kubelet may need beyond the grace: to hear of the removal, and for the runtime to kill."""

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The taint by which a person says that a Node is shut down and nothing runs on it any more (KEP-2268)."""

_TEXT = re.compile(r"Pod (\S+) \((\S+)\) was removed from (\S+) without its kubelet's word, grace (\d+) s")


@dataclass(frozen=True, slots=True)
class Removal:
    """One Pod whose end is not proven. Instants are seconds on the clock whose `now` is given."""

    uid: str
    pod: str
    """`namespace/name`."""

    node: str
    grace_s: int
    last: tuple[str, float] | None = None
    """UID and heartbeat of its Node when it was removed, or when it was last not Ready; `None`: there was no Node."""

    alive_at: float | None = None
    """Since when kubelet is known to live."""

    @property
    def cause(self) -> str:
        """Of the hold."""
        return f"removed {self.uid}"

    @property
    def text(self) -> str:
        """Of the hold; a later start reads it from the drain's reason."""
        return f"Pod {self.pod} ({self.uid}) was removed from {self.node} without its kubelet's word, {self._grace}"

    @property
    def _grace(self) -> str:
        return f"grace {self.grace_s} s"


def removal(uid: str, pod: str, node: str, grace_s: int, seen: NodeView | None) -> Removal:
    """A Pod was removed now; `seen` is its Node."""
    return Removal(uid, pod, node, grace_s, _heartbeat(seen))


def look(known: Removal, node: NodeView | None, now: float) -> tuple[Removal, bool]:
    """Look at the Node now. True: its containers are gone."""
    if node is None or node.ready is not True:
        # Whatever it wrote before it went away says nothing about afterwards.
        return replace(known, last=_heartbeat(node) or known.last, alive_at=None), _out_of_service(node)
    if known.alive_at is None:
        return (replace(known, alive_at=now) if _heartbeat(node) != known.last else known), _out_of_service(node)
    return known, now - known.alive_at >= known.grace_s + SETTLE_S


def removals_in(reason: str) -> list[Removal]:
    """Those that a drain of ours names. What their Nodes wrote last is not known: the next look takes that."""
    return [Removal(uid, pod, node, int(grace)) for pod, uid, node, grace in _TEXT.findall(reason)]


def _heartbeat(node: NodeView | None) -> tuple[str, float] | None:
    return None if node is None else (node.uid, node.heartbeat)


def _out_of_service(node: NodeView | None) -> bool:
    return node is not None and any(taint.key == OUT_OF_SERVICE for taint in node.taints)
