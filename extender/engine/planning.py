"""Plan how a workload is submitted: which mode and call, which nodes to avoid, and which are too small.

A job avoids nodes whose Node is too small: Slurm knows nothing of huge pages or ephemeral storage, and its size of a
node may be more than the kubelet gives to Pods. Ten thousand Pods wait with a handful of different requests: results
that depend only on requests and nodes are computed once for each request, until such a node changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import TypeVar

from extender.domain.jobs.exclusions import exclusions, reach
from extender.domain.jobs.job import JobRequest, Mode
from extender.domain.nodes.fence_evidence import NO_FENCE, FencedNodes
from extender.domain.placing import room
from extender.domain.placing.mode import few, job_safety
from extender.domain.placing.room import Amounts
from extender.domain.renewal import replace
from extender.domain.rules import NoPlan, QueuedPlaceholders, SubmissionPlan, mode_of, must_queue, plan
from extender.domain.views import NodeView, PodView
from extender.engine.cluster_snapshot import ClusterSnapshot, same_reach

ANSWERS_KEPT = 512
"""Answers that are remembered at most."""

T = TypeVar("T")


class Planner:
    """`on_no_node`: resources that no node has to have. `gangs_need_fence`: on each of their nodes."""

    def __init__(self, on_no_node: Callable[[str], bool], *, gangs_need_fence: bool = True) -> None:
        self._gangs_need_fence = gangs_need_fence
        self._node_capacity = NodeCapacityIndex(on_no_node)
        self._snapshot = ClusterSnapshot()
        self._known: dict[Hashable, object] = {}
        """Answers that hold as long as nothing changes of what `same_reach` compares."""

    def excluded(
        self,
        snapshot: ClusterSnapshot,
        pods: Sequence[PodView],
        candidates: frozenset[str],
        request: JobRequest,
        *,
        fenced: FencedNodes = NO_FENCE,
    ) -> tuple[str, ...]:
        """Return the Slurm nodes that the job must avoid, those with a Node that is too small for a Pod included.

        A gang must also avoid nodes without a working fence: a batch script holds the first node of a job alone.
        """
        excluded = self._exclusions(snapshot, candidates, self._node_capacity.too_small(snapshot, pods), request)
        unfenced = self._unfenced(snapshot, request, fenced)
        return tuple(sorted({*excluded, *unfenced})) if unfenced else excluded

    def _unfenced(self, snapshot: ClusterSnapshot, request: JobRequest, fenced: FencedNodes) -> frozenset[str]:
        if request.members < 2 or not self._gangs_need_fence:
            return frozenset()
        nodes, known = frozenset(reach(snapshot.slurm, request)), snapshot.slurm.nodes
        external = {name for name in nodes if name in known and known[name].external}
        return frozenset(job_safety(Mode.BATCH, request.members, nodes, external, fenced).unfenced)

    def mode_of(self, snapshot: ClusterSnapshot, request: JobRequest, excluded: tuple[str, ...]) -> Mode:
        """Return the likely mode of a queued job whose mode is not recorded, by its excluded nodes."""
        what = ("mode", request.mode, request.partition, excluded)
        return self._once(snapshot, what, lambda: mode_of(request, snapshot.slurm, excluded))

    def queued(
        self, snapshot: ClusterSnapshot, request: JobRequest, excluded: tuple[str, ...], mode: Mode
    ) -> SubmissionPlan | NoPlan:
        """Return the plan for a job of this mode that is already queued."""
        return self._planned(snapshot, replace(request, mode=mode), excluded, queue=True)

    def plan(
        self,
        snapshot: ClusterSnapshot,
        pods: Sequence[PodView],
        candidates: frozenset[str],
        request: JobRequest,
        *,
        queue: bool,
        waiting: QueuedPlaceholders,
        fenced: FencedNodes = NO_FENCE,
    ) -> tuple[SubmissionPlan | NoPlan, str]:
        """Return mode and call, and why none of the nodes that are left can ever hold the workload, if that is so."""
        queue = queue or must_queue(request, snapshot.slurm, waiting)

        def planned(excluded: tuple[str, ...]) -> SubmissionPlan | NoPlan:
            return self._planned(snapshot, request, excluded, queue=queue, fenced=fenced)

        small = self._node_capacity.too_small(snapshot, pods)
        excluded = self._exclusions(snapshot, candidates, small, request)
        chosen = planned(excluded)
        if isinstance(chosen, NoPlan):
            without_sizes = planned(self._exclusions(snapshot, candidates, frozenset(), request))
            if isinstance(without_sizes, NoPlan):
                return chosen, ""
            there = [
                snapshot.node_map.kubernetes.get(name, "") for name in self._left(snapshot, request, without_sizes)
            ]
            return chosen, self._node_capacity.no_node(snapshot, pods, there)
        nowhere = self._node_capacity.no_slurm_node(snapshot, request, self._left(snapshot, request, chosen))
        if nowhere:  # perhaps nodes of another kind would do, on which it would exist in another mode
            other = planned(tuple(sorted({*excluded, *self._left(snapshot, request, chosen)})))
            if isinstance(other, SubmissionPlan):
                again = self._node_capacity.no_slurm_node(snapshot, request, self._left(snapshot, request, other))
                return (chosen, nowhere) if again else (other, "")
        if not nowhere and (nowhere := self.too_few(snapshot, request, chosen)):
            left = frozenset(self._left(snapshot, request, chosen))
            others = _unsuitable(snapshot, request, left, small, by_mode=frozenset(chosen.excluded) - set(excluded))
            nowhere = f"{nowhere} {others}".rstrip()
        unfenced = self._unfenced(snapshot, request, fenced)
        if unfenced:
            unfenced &= frozenset(self._left(snapshot, request, chosen))
        if nowhere or not unfenced:
            return chosen, nowhere
        with_fence = planned(tuple(sorted({*excluded, *unfenced})))
        if isinstance(with_fence, NoPlan) or self.too_few(snapshot, request, with_fence):
            return NoPlan(f"GangNeedsFence: install the fence script on {few(unfenced)}"), ""
        return with_fence, ""

    def too_few(self, snapshot: ClusterSnapshot, request: JobRequest, chosen: SubmissionPlan) -> str:
        """Return why the nodes that are left cannot hold every member of a gang, as a sentence; "" if they may."""
        if request.members < 2:
            return ""
        left = list(dict.fromkeys(self._left(snapshot, request, chosen)))  # partitions may share nodes
        if request.packed:
            return _no_room(snapshot, request, left)
        lacks = len(left) < request.members
        return f"{_suitable(left)}, {request.members} are needed." if lacks else ""

    def _exclusions(
        self, snapshot: ClusterSnapshot, candidates: frozenset[str], refused: frozenset[str], request: JobRequest
    ) -> tuple[str, ...]:
        what = ("avoids", candidates, refused, request.partition, request.excluded_nodes)
        return self._once(
            snapshot, what, lambda: exclusions(candidates, refused, snapshot.node_map, snapshot.slurm, request)
        )

    def _planned(
        self,
        snapshot: ClusterSnapshot,
        request: JobRequest,
        excluded: tuple[str, ...],
        *,
        queue: bool,
        fenced: FencedNodes = NO_FENCE,
    ) -> SubmissionPlan | NoPlan:
        what = (
            "plan",
            excluded,
            request.partition,
            request.mode,
            request.qos,
            request.run_as is None,
            bool(request.begin or request.dependency),
            queue,
            request.fewest_nodes,
            request.members > 1,
            bool(request.required_nodes),
            fenced,
        )
        return self._once(
            snapshot,
            what,
            lambda: plan(request, snapshot.slurm, excluded, queue, QueuedPlaceholders(), fenced=fenced),
        )

    def _once(self, snapshot: ClusterSnapshot, what: Hashable, work_out: Callable[[], T]) -> T:
        """Return the answer for `what` from the cache, or work it out. `what` names all inputs beside the nodes."""
        if snapshot is not self._snapshot:
            if not same_reach(self._snapshot, snapshot):
                self._known.clear()
            self._snapshot = snapshot
        known = self._known.get(what)
        if known is None:
            if len(self._known) >= ANSWERS_KEPT:
                self._known.clear()
            known = self._known[what] = work_out()
        return known  # type: ignore[return-value]  # what was kept under this name

    @staticmethod
    def _left(snapshot: ClusterSnapshot, request: JobRequest, chosen: SubmissionPlan) -> Iterator[str]:
        avoided = frozenset(chosen.excluded)
        return (name for name in reach(snapshot.slurm, request) if name not in avoided)


SIZES_KEPT = 256
"""Sizes that are remembered at most."""


class NodeCapacityIndex:
    """`on_no_node`: resources that no node has to have."""

    def __init__(self, on_no_node: Callable[[str], bool]) -> None:
        self._on_no_node = on_no_node
        self._nodes: Mapping[str, NodeView] = {}
        self._by_amount: dict[str, tuple[list[int], list[list[str]]]] = {}
        """By resource: what Nodes have of it, and which Nodes these are, the smallest first."""

        self._small: dict[frozenset[tuple[str, int]], frozenset[str]] = {}

    def too_small(self, snapshot: ClusterSnapshot, pods: Iterable[PodView]) -> frozenset[str]:
        """Return the Kubernetes Nodes that are too small for one of these Pods."""
        self._check(snapshot)
        found = [self._too_small(room.of_pod(pod, self._on_no_node)) for pod in pods]
        return found[0] if len(found) == 1 else frozenset[str]().union(*found)

    def no_node(self, snapshot: ClusterSnapshot, pods: Iterable[PodView], nodes: Iterable[str]) -> str:
        """Return why none of these Kubernetes Nodes can ever hold one of the Pods, as a sentence; "" where one can."""
        self._check(snapshot)
        there = frozenset(nodes) & self._nodes.keys()
        for pod in pods:
            requested = room.of_pod(pod, self._on_no_node)
            if there and there <= self._too_small(requested):
                offers = {name: room.of_kubelet(self._nodes[name], requested) for name in there}
                return f"No Node that the Pod may use is large enough for it. {room.closest('Node', requested, offers)}"
        return ""

    @staticmethod
    def no_slurm_node(snapshot: ClusterSnapshot, request: JobRequest, nodes: Iterable[str]) -> str:
        """Return why none of these Slurm nodes can ever hold the job, as a sentence; "" where one can.

        An empty list of nodes, or missing information, is not a reason.
        """
        requested = room.of_job(request)
        offers: dict[str, Amounts] = {}
        for name in nodes:
            node = snapshot.slurm.nodes.get(name)
            has = None if node is None else room.of_slurm(node)
            if has is None or not room.lacks(requested, has):
                return ""
            offers[name] = has
        if not offers:
            return ""
        closest = room.closest("Slurm node", requested, offers)
        return f"No Slurm node that the Pod may use is large enough for it. {closest}"

    def _too_small(self, requested: Amounts) -> frozenset[str]:
        key = frozenset(requested.items())
        found = self._small.get(key)
        if found is None:
            if len(self._small) >= SIZES_KEPT:
                self._small.clear()
            found = frozenset(
                name for resource, amount in requested.items() for name in self._with_less(resource, amount)
            )
            self._small[key] = found
        return found

    def _with_less(self, resource: str, amount: int) -> Iterator[str]:
        known = self._by_amount.get(resource)
        if known is None:
            if len(self._by_amount) >= SIZES_KEPT:  # Pods may name resources that there are not
                self._by_amount.clear()
            alike: dict[tuple[bool, str], list[str]] = {}  # thousands of Nodes say it in a handful of words
            for name, node in self._nodes.items():
                reported = bool(node.allocatable), node.allocatable.get(resource, "")
                alike.setdefault(reported, []).append(name)
            requested = (resource,)
            pairs = [(room.of_kubelet(self._nodes[names[0]], requested)[resource], names) for names in alike.values()]
            pairs.sort(key=itemgetter(0))
            known = self._by_amount[resource] = [has for has, _ in pairs], [names for _, names in pairs]
        return chain.from_iterable(known[1][: bisect_left(known[0], amount)])

    def _check(self, snapshot: ClusterSnapshot) -> None:
        before, now = self._nodes, snapshot.nodes
        if now is before:
            return
        self._nodes = now
        if before.keys() == now.keys() and all(_gives_the_same(before[name], node) for name, node in now.items()):
            return
        self._by_amount.clear()
        self._small.clear()


def _no_room(snapshot: ClusterSnapshot, request: JobRequest, nodes: Sequence[str]) -> str:
    """Return why these nodes cannot hold all members of a packed gang, as a sentence; "" where they may."""
    requested, found = room.of_job(request), 0
    for name in nodes:
        node = snapshot.slurm.nodes.get(name)
        has = None if node is None else room.of_slurm(node)
        if has is None:
            return ""
        found += room.times(requested, has)
    if found >= request.members:
        return ""
    return f"{_suitable(nodes)}, with room for {found} members; the gang has {request.members}."


def _unsuitable(
    snapshot: ClusterSnapshot,
    request: JobRequest,
    left: Collection[str],
    small: Collection[str],
    *,
    by_mode: Collection[str],
) -> str:
    """Return why the other nodes that the job may reach are not suitable, as a sentence; "" if there are no others.

    `left` and `by_mode` are Slurm nodes, `small` Kubernetes Nodes.
    """
    kubernetes = snapshot.node_map.kubernetes
    counts = Counter[str]()
    for name in frozenset(reach(snapshot.slurm, request)).difference(left):
        if name not in kubernetes:
            counts["without a Kubernetes Node"] += 1
        elif kubernetes[name] in small:
            counts["too small for a Pod"] += 1
        elif name in by_mode:
            counts["not usable in the mode of the job"] += 1
        else:
            counts["excluded by kube-scheduler or by rules of a Pod"] += 1
    reasons = ", ".join(f"{count} {why}" for why, count in sorted(counts.items(), key=itemgetter(0), reverse=True))
    return f"Other nodes: {reasons}." if reasons else ""


def _suitable(nodes: Sequence[str]) -> str:
    return f"{len(nodes)} {'node is' if len(nodes) == 1 else 'nodes are'} suitable"


def _gives_the_same(old: NodeView, new: NodeView) -> bool:
    return old is new or old.allocatable == new.allocatable
