"""Remember the Pods of a start whose owners could not be read: nothing is known of the workloads they belong to."""

from __future__ import annotations

from collections import Counter

from extender.domain.gangs.membership import is_key_of_gang
from extender.domain.placeholder import Placeholder, State
from extender.domain.views import PodView


def may_have_older_job(p: Placeholder) -> bool:
    """Return whether a job of a process before may exist that this record does not know: it never had one.

    A newer Pod of a gang opens such a record while the older ones are not adopted yet.
    """
    return p.state in {State.ABSENT, State.REFUSED} and p.attempt == 0 and not p.duplicate_jobs


class DeferredPods:
    """Pods that exist and are not adopted yet, each as it was seen last, with the reason as a sentence."""

    def __init__(self) -> None:
        self._pods: dict[str, PodView] = {}
        self._reasons: dict[str, str] = {}
        self._on_node: Counter[str] = Counter()
        self._in_namespace: Counter[str] = Counter()

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def uids(self) -> tuple[str, ...]:
        """Return the UIDs of these Pods."""
        return tuple(self._pods)

    def put(self, pod: PodView, reason: str) -> None:
        """Add a Pod."""
        self._reasons[pod.uid] = reason
        self.seen(pod)

    def seen(self, pod: PodView) -> None:
        """Take over what a Pod says now."""
        self._forget(pod.uid)
        self._pods[pod.uid] = pod
        self._on_node[pod.node_name] += 1
        self._in_namespace[pod.namespace] += 1

    def drop(self, uid: str) -> None:
        """Remove a Pod: it is adopted, or gone."""
        self._forget(uid)
        self._reasons.pop(uid, None)

    def _forget(self, uid: str) -> None:
        if (pod := self._pods.pop(uid, None)) is not None:
            _decrement(self._on_node, pod.node_name)
            _decrement(self._in_namespace, pod.namespace)

    def reason_of(self, uid: str) -> str:
        """Return why a Pod is not adopted yet; "": it is none of these. It is constant while the Pod waits."""
        return self._reasons.get(uid, "")

    @property
    def trouble(self) -> str:
        """Return how many Pods are not adopted, and why the first of them is not; "": there are none."""
        first = next(iter(self._reasons.values()), "")
        return f"{len(self._pods)} Pods are not adopted yet: {first}" if first else ""

    def may_have(self, workload: str, namespace: str) -> bool:
        """Return whether one of these Pods belongs, or may belong, to a workload; `namespace` "": it is not known."""
        if not is_key_of_gang(workload):
            return workload in self._pods
        return bool(self._in_namespace[namespace] if namespace else self._pods)

    def get(self, uid: str) -> PodView | None:
        """Return one of these Pods as it was seen last; `None`: it is none of them."""
        return self._pods.get(uid)

    def bound(self) -> list[PodView]:
        """Return those of these Pods that are on a Node."""
        return [pod for pod in self._pods.values() if pod.node_name]

    def unbound(self) -> list[str]:
        """Return the UIDs of those of these Pods that are on no Node."""
        return [uid for uid, pod in self._pods.items() if not pod.node_name]

    def on_node(self, node: str) -> bool:
        """Return whether one of these Pods is on a Node."""
        return bool(node) and self._on_node[node] > 0


def _decrement(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
