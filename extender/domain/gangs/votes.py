"""Count the votes of a gang's members: all are bound at the moment when kube-scheduler accepts each on its node.

A member votes when kube-scheduler calls `/bind` for it. Members come back from kube-scheduler's back-off out of phase:
a barrier that needs all calls to be open at once was never passed by 96 Pods in 45 s, and by votes after 3.4 s.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from extender.domain.placeholder import Placeholder
from extender.domain.views import NodeView, PodView
from extender.domain.wellknown import JOB_ID_LABEL

MEMBER_S = 0.1
"""What each member adds to the time of a vote: kube-scheduler tries one Pod after the other, 20 to 50 a second on two
cores."""


def wanting(p: Placeholder) -> frozenset[str]:
    """Return the members that are to be bound, by UID."""
    return frozenset(member.ref.uid for member in p.members if member.wanting)


def turn_s(members: int) -> float:
    """Return how many seconds kube-scheduler may need to try so many members once."""
    return MEMBER_S * members


@dataclass(frozen=True, slots=True)
class Vote:
    """kube-scheduler accepted the member on `node` at `at`, on the clock of the caller."""

    uid: str
    node: str
    at: float


@dataclass(frozen=True, slots=True)
class Ballot:
    """The votes of one gang of `size` members for one allocation of its job. Each counts for `valid_s`, or longer."""

    job_id: int
    valid_s: float
    size: int = 0
    votes: tuple[Vote, ...] = ()
    undone: tuple[Vote, ...] = ()
    """Votes that an error of `/bind` ended: kube-scheduler accepts these members, and has to do so again."""

    def cast(self, uid: str, node: str, now: float) -> Ballot:
        """Count a vote, in place of an earlier one of the same member; votes that expired are dropped."""
        kept = self.without_pod(uid)
        return replace(kept, votes=(*kept.valid(now), Vote(uid, node, now)))

    def undo(self, uid: str) -> Ballot:
        """End the vote of a member for which kube-scheduler gets an error that undoes its reservations."""
        kept = self.without_pod(uid)
        return replace(kept, undone=(*kept.undone, *(one for one in self.votes if one.uid == uid)))

    def without_node(self, node: str) -> Ballot:
        """Void the votes for a Node of which something changed."""
        return self._with(lambda one: one.node != node)

    def without_pod(self, uid: str) -> Ballot:
        """Void the vote of a Pod of which something changed."""
        return self._with(lambda one: one.uid != uid)

    def valid(self, now: float) -> tuple[Vote, ...]:
        """Return the votes that count now."""
        return tuple(one for one in self.votes if self._is_recent(one, now))

    def missing(self, members: Collection[str], now: float) -> frozenset[str]:
        """Return which of these members have not voted."""
        return frozenset(members) - {one.uid for one in self.valid(now)}

    def refused(self, members: Collection[str], now: float) -> frozenset[str]:
        """Return which of these members kube-scheduler has not accepted lately."""
        return self.missing(members, now) - {one.uid for one in self.undone if self._is_recent(one, now)}

    def is_complete(self, members: Collection[str], now: float) -> bool:
        """Return whether each of these members has voted, so that all of them may be bound."""
        return bool(members) and not self.missing(members, now)

    def _is_recent(self, vote: Vote, now: float) -> bool:
        return now - vote.at < self.valid_s + turn_s(self.size)

    def _with(self, kept: Callable[[Vote], bool]) -> Ballot:
        return replace(self, votes=tuple(filter(kept, self.votes)), undone=tuple(filter(kept, self.undone)))


def judged_of_node(node: NodeView) -> tuple[object, ...]:
    """Return everything of a Node by which kube-scheduler may reject a Pod."""
    return (node.labels, node.unschedulable, node.taints, node.allocatable, node.uid)


def judged_of_pod(pod: PodView) -> tuple[object, ...]:
    """Return everything of a Pod that may change while it waits and by which kube-scheduler may reject its node.

    The label with the job's number is left out. The extender writes it as the gate falls, and kube-scheduler, which saw
    that, may vote before the watch shows it here. So are tolerations: they are only ever added, and reject no node.
    """
    labels = {key: value for key, value in pod.labels.items() if key != JOB_ID_LABEL}
    return (pod.deleted_at, pod.finished, labels, pod.node_selector, pod.required_terms)
