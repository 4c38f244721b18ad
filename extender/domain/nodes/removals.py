"""Pods that were removed although no kubelet said that their containers have ended: what is known, and what proves it.

A forced deletion, or the garbage collector of Pods, removes the object and nothing else. Where kubelet lives it hears
of that by its watch, and at once ends the containers, with the Pod's own grace (`pod_workers.go`,
calculateEffectiveGracePeriod: a forced deletion counts as none given). One that was away, or is started again, ends
the containers of Pods that the API server does not have any more (`kubelet_pods.go`, HandlePodCleanups, every 2 s).

That kubelet lives is told by its Node's Lease, every 10 s, and by the status of the Node, every 5 min where nothing
changes. Neither tells that it has heard: its watch of Pods goes over another connection. So it is given `HEARS_S` after
a first word, then the grace; and it must live on: a second word has to come from afterwards, and `SETTLE_S` more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from extender.domain.nodes.drains import ROOM, ours_in
from extender.domain.views import NodeView

HEARS_S = 60.0
"""Until a kubelet that reaches the API server has heard of a removal, at the latest.

A watch whose connection is dead is given up after 45 s (`k8s.io/apimachinery`, `util/net/http.go`: 30 s and a ping of
15 s), and begun again in about 2 s. While the API server is away client-go tries again after up to 30 s, which it
spreads up to 60 s (`tools/cache/reflector.go`).
"""

SETTLE_S = 10.0
"""What a kubelet that lived may need beyond the grace, or one that was started again to end what it finds."""

ALL_WORDS = 2

SHORTEST = 16
"""Characters of a Pod's name that are told in any case."""

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The taint by which a person says that a Node is shut down and nothing runs on it any more (KEP-2268)."""

_TEXT = re.compile(r"Pod (\S+) \((\S+)\) was removed from (\S+) without its kubelet's word, grace (\d{1,9}) s")


@dataclass(frozen=True, slots=True)
class KubeletReport:
    """What a kubelet wrote last, by its own clock: only that it differs from another word says something."""

    node_uid: str
    heartbeat: float
    renewed: str = ""
    """Of its Node's Lease, as an answer had it; "": not read."""

    def newer(self, before: KubeletReport | None) -> bool:
        """Whether kubelet has written since."""
        if before is None or (self.node_uid, self.heartbeat) != (before.node_uid, before.heartbeat):
            return True
        return bool(self.renewed and before.renewed) and self.renewed != before.renewed


@dataclass(frozen=True, slots=True)
class Removal:
    """One Pod whose end is not proven. Instants are seconds on the clock whose `now` is given."""

    uid: str
    pod: str
    """`namespace/name`."""

    node: str
    grace_s: int
    last: KubeletReport | None = None
    """What kubelet had written when the wait for its next word began. `None`: there was no Node."""

    words: int = 0
    """Its first word tells that it hears of the removal soon, its second that it has lived until the grace was over."""

    due: float | None = None
    """After a word: what follows from it is true by then."""

    @property
    def cause(self) -> str:
        """Of the hold."""
        return f"removed {self.uid}"

    @property
    def text(self) -> str:
        """Of the hold; a later start reads it from the drain's reason, where it has to fit in as a whole."""
        rest = f" ({self.uid}) was removed from {self.node} without its kubelet's word, grace {self.grace_s} s"
        room = max(ROOM - len("Pod ") - len(rest), SHORTEST)  # the UID tells which Pod it is
        pod = self.pod if len(self.pod) <= room else f"{self.pod[: room - 2]}.."
        return f"Pod {pod}{rest}"

    def asks(self, node: NodeView | None, now: float) -> bool:
        """Whether the Lease of its Node would tell something now."""
        over = self.due is None or (self.words == 1 and now >= self.due)
        return node is not None and node.ready is True and over


def removal(uid: str, pod: str, node: str, grace_s: int, seen: NodeView | None) -> Removal:
    """A Pod was removed now; `seen` is its Node."""
    return Removal(uid, pod, node, grace_s, _word(seen))


def check(known: Removal, node: NodeView | None, now: float, renewed: str = "") -> tuple[Removal, bool]:
    """Look at the Node now. True: its containers are gone. `renewed`: of its Lease, where that was read after `now`."""
    gone, word = _out_of_service(node), _word(node, renewed)
    if word is None or node is None or node.ready is not True:
        # Whatever it wrote before it went away says nothing about afterwards.
        return replace(known, last=word or known.last, words=0, due=None), gone
    if known.due is not None:
        if now < known.due or known.words == ALL_WORDS:
            return known, gone or now >= known.due
        return replace(known, last=word, due=None), gone
    if word.newer(known.last):
        wait = SETTLE_S if known.words else HEARS_S + known.grace_s
        return replace(known, words=known.words + 1, due=now + wait), gone
    # A Lease that is read for the first time is what the next reading is compared with.
    read_before = known.last is not None and known.last.renewed
    return (known if read_before else replace(known, last=word)), gone


def removals_in(reason: str) -> list[Removal]:
    """Those that a drain of ours names. What their Nodes wrote last is not known: the next look takes that."""
    return [Removal(uid, pod, node, int(grace)) for pod, uid, node, grace in _TEXT.findall(ours_in(reason))]


def _word(node: NodeView | None, renewed: str = "") -> KubeletReport | None:
    return None if node is None else KubeletReport(node.uid, node.heartbeat, renewed)


def _out_of_service(node: NodeView | None) -> bool:
    return node is not None and any(taint.key == OUT_OF_SERVICE for taint in node.taints)
