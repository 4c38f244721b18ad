"""Prove the end of containers whose Pod was removed before its kubelet reported that they have ended.

A forced deletion, or the garbage collector of Pods, removes the object and nothing else. A kubelet that runs learns
of that by its watch, and at once ends the containers, with the Pod's own grace (`pod_workers.go`,
calculateEffectiveGracePeriod: a forced deletion counts as none given). One that was away, or is started again, ends
the containers of Pods that the API server does not have any more (`kubelet_pods.go`, HandlePodCleanups, every 2 s).

A running kubelet renews its Node's Lease every 10 s, and writes the status of the Node every 5 min if nothing changes.
Neither shows that it knows of the removal: its watch of Pods uses another connection. So the proof needs a first report
of kubelet, `HEARS_S` and the grace after it, a second report from afterwards, and `SETTLE_S` more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from extender.domain.nodes.drain_reasons import ROOM, own_reason
from extender.domain.views import NodeView

HEARS_S = 60.0
"""Seconds within which a kubelet that reaches the API server has learnt of a removal.

A watch whose connection is dead ends after 45 s (`k8s.io/apimachinery`, `util/net/http.go`: 30 s and a ping of 15 s),
and restarts in about 2 s. While the API server is away client-go retries after up to 30 s, which it spreads up to 60 s
(`tools/cache/reflector.go`).
"""

SETTLE_S = 10.0
"""Seconds that kubelet may need beyond the grace, or after a restart to end the containers that it finds."""

ALL_WORDS = 2

SHORTEST = 16
"""Characters of a Pod's name that are shown in any case."""

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The taint with which an administrator states that a Node is shut down and runs nothing any more (KEP-2268)."""

_TEXT = re.compile(r"Pod (\S+) \((\S+)\) was removed from (\S+) without a kubelet report, grace (\d{1,9}) s")


@dataclass(frozen=True, slots=True)
class KubeletReport:
    """Hold the times of kubelet's last writes, by its own clock: they are only compared for equality."""

    node_uid: str
    heartbeat: float
    renewed: str = ""
    """`renewTime` of its Node's Lease, as read; "": not read."""

    def newer(self, before: KubeletReport | None) -> bool:
        """Return whether kubelet has written since."""
        if before is None or (self.node_uid, self.heartbeat) != (before.node_uid, before.heartbeat):
            return True
        return bool(self.renewed and before.renewed) and self.renewed != before.renewed


@dataclass(frozen=True, slots=True)
class Removal:
    """Hold one Pod whose end is not proven. Instants are seconds on the clock whose `now` is given."""

    uid: str
    pod: str
    """`namespace/name`."""

    node: str
    grace_s: int
    last: KubeletReport | None = None
    """kubelet's last writes when the wait for its next report began. `None`: there was no Node."""

    words: int = 0
    """kubelet's reports so far: after the first it learns of the removal soon; the second shows that it ran until the
    grace was over."""

    due: float | None = None
    """After a report: the instant by which its consequence holds."""

    @property
    def cause(self) -> str:
        """Return the cause of the hold."""
        return f"removed {self.uid}"

    @property
    def text(self) -> str:
        """Return the text of the hold. A restarted extender reads it from the drain's reason, so it must fit whole."""
        rest = f" ({self.uid}) was removed from {self.node} without a kubelet report, grace {self.grace_s} s"
        room = max(ROOM - len("Pod ") - len(rest), SHORTEST)  # the UID identifies the Pod
        pod = self.pod if len(self.pod) <= room else f"{self.pod[: room - 2]}.."
        return f"Pod {pod}{rest}"

    def needs_lease(self, node: NodeView | None, now: float) -> bool:
        """Return whether reading the Lease of its Node could prove something now."""
        is_due = self.due is None or (self.words == 1 and now >= self.due)
        return node is not None and node.ready is True and is_due


def removal(uid: str, pod: str, node: str, grace_s: int, seen: NodeView | None) -> Removal:
    """Begin the proof for a Pod that was removed now; `seen` is its Node."""
    return Removal(uid, pod, node, grace_s, _word(seen))


def check(known: Removal, node: NodeView | None, now: float, renewed: str = "") -> tuple[Removal, bool]:
    """Continue the proof with the Node as it is now. True: the containers are gone.

    `renewed`: `renewTime` of its Lease, if that was read after `now`.
    """
    gone, word = _out_of_service(node), _word(node, renewed)
    if word is None or node is None or node.ready is not True:
        # Reports from before the Node went away prove nothing about the time afterwards.
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
    """Return the removals that the reason of an extender's drain names. The next `check` sets kubelet's reports."""
    return [Removal(uid, pod, node, int(grace)) for pod, uid, node, grace in _TEXT.findall(own_reason(reason))]


def _word(node: NodeView | None, renewed: str = "") -> KubeletReport | None:
    return None if node is None else KubeletReport(node.uid, node.heartbeat, renewed)


def _out_of_service(node: NodeView | None) -> bool:
    return node is not None and any(taint.key == OUT_OF_SERVICE for taint in node.taints)
