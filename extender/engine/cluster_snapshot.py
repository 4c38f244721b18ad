"""Hold the nodes of both sides as one value, and notify workloads when that changes which nodes they may use.

The node controller writes the value; all other components read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.cluster import SlurmSnapshot
from extender.domain.nodes.mapping import NodeMap
from extender.domain.placeholder import Placeholder, State
from extender.domain.placeholders import EmitEvent, Placeholders
from extender.domain.placing.fit import Busy, Fits, Misfits, fit
from extender.domain.ports import Clock
from extender.domain.views import NodeView, PodView
from extender.runtime.controller import Controller
from extender.runtime.cooperative_yield import CooperativeYield


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Nodes of both sides and which is which."""

    slurm: SlurmSnapshot = field(default_factory=SlurmSnapshot)
    node_map: NodeMap = field(default_factory=NodeMap)
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    """Kubernetes Nodes by name."""


def same_reach(old: ClusterSnapshot, new: ClusterSnapshot) -> bool:
    """Return whether two snapshots give the same excluded nodes for every job.

    States and reasons of Slurm's nodes change all the time; jobs in Slurm's queue need no update for them.
    """
    was, now = old.slurm, new.slurm
    return (
        was.known == now.known
        and was.partitions == now.partitions
        and was.features == now.features
        and old.node_map.kubernetes == new.node_map.kubernetes
        and {name: node.external for name, node in was.nodes.items()}
        == {name: node.external for name, node in now.nodes.items()}
        and _allocatable(old) == _allocatable(new)
    )


def same_sizes(old: ClusterSnapshot, new: ClusterSnapshot) -> bool:
    """Return whether Slurm's nodes kept their sizes: a job that fitted on none of them still does not."""
    return _sizes(old) == _sizes(new)


def _sizes(snapshot: ClusterSnapshot) -> dict[str, tuple[object, ...]]:
    nodes = snapshot.slurm.nodes.items()
    return {name: (node.cpus, node.memory_mb, node.gres, node.features) for name, node in nodes}


def _allocatable(snapshot: ClusterSnapshot) -> dict[str, Mapping[str, str]]:
    return {name: node.allocatable for name, node in snapshot.nodes.items()}


Allocation = e.AllocationFits | e.AllocationBusy | e.AllocationMisfits | e.AllocationUnfenced


def check_allocation(
    p: Placeholder,
    pods: Mapping[str, PodView],
    snapshot: ClusterSnapshot,
    on_node: Callable[[str], Sequence[PodView]],
    others: Sequence[Placeholder],
    *,
    on_no_node: Callable[[str], bool] = lambda _resource: False,
) -> Allocation:
    """Check whether the kubelet would admit each waiting member on its granted node, and no lost Pod is still there.

    `pods` are the members' views by UID, `on_node` returns all Pods of a node. `others` are placeholders whose Pods may
    be in the way: LOST or UNSURE ones. `on_no_node`: resources that no node has to have.
    """
    for other in others:
        if other.key != p.key:
            occupied = {member.node for member in other.members if member.placed and member.node}
            for _, given in p.allocation:
                if given in occupied and other.state is State.LOST:
                    return e.AllocationBusy(f"Node {given} still runs a Pod whose Slurm allocation ended.")
                if given in occupied:
                    return e.AllocationBusy(f"Slurm has not confirmed yet that the job of a Pod on Node {given} runs.")
    earlier: dict[str, list[PodView]] = {}
    for member in p.members:
        node_name = p.node_of(member.ref.uid)
        pod = pods.get(member.ref.uid)
        if not (member.wanting or member.binding) or not node_name:
            continue
        node = snapshot.nodes.get(node_name)
        if node is None:
            # The Node existed at the grant and may register again; `unbound_allocations` measures its absence.
            return e.AllocationBusy(f"Node {node_name} does not exist at present.")
        if pod is None:
            return e.AllocationBusy("The extender has not read the Pod yet.")
        there = earlier.setdefault(node_name, [])
        match fit(pod, node, [*on_node(node_name), *there], on_no_node):
            case Fits():
                there.append(pod)
            case Busy(text):
                return e.AllocationBusy(text)
            case Misfits(text):
                return e.AllocationMisfits(node_name, text)
    return e.AllocationFits()


_FOLLOWS = (State.WAITING, State.SUBMITTING, State.UNSURE, State.GRANTED)
"""States in which a change of the excluded nodes matters: now, once the job is known, or once it is queued again."""


class NodeChangeNotifier:
    """Notify whom a change concerns. `queue_command` queues a command for Slurm. Keys are those of workloads."""

    def __init__(
        self, clock: Clock, workloads: Placeholders, notify: EmitEvent, queue_command: Callable[[str, c.Command], None]
    ) -> None:
        self._clock = clock
        self._workloads = workloads
        self._notify = notify
        self._queue_command = queue_command
        self._controller = Controller("news of nodes", self._reconcile, flow_of=workloads.namespace_of, keep_early=True)

    def changed(self, old: ClusterSnapshot, new: ClusterSnapshot) -> None:
        """Compare two snapshots, and queue the notifications that follow from the difference."""
        if new.node_map.known and not old.node_map.known:
            self._read(State.WAITING)
        if new.node_map.kubernetes != old.node_map.kubernetes:
            self._read(State.GRANTED)  # its node may be another Node now
        self._notify_nodes(old, new)

    async def run(self) -> None:
        """Notify until cancelled."""
        await self._controller.run()

    async def _reconcile(self, key: str) -> None:
        if self._workloads.get(key) is not None:
            self._notify(key, e.SlurmSnapshotChanged(), "nodes")

    def _read(self, state: State) -> None:
        for p in self._workloads.in_state(state):
            if p.job_id is not None:
                self._queue_command(p.key, c.ReadJob(p.job_id))

    def _notify_nodes(self, old: ClusterSnapshot, new: ClusterSnapshot) -> None:
        """Notify waiting workloads, and those that no node could hold, when something has changed for them."""
        reach = same_reach(old, new)
        affected = [] if reach else self._workloads.in_state(*_FOLLOWS)
        nowhere = [p for p in self._workloads.in_state(State.ABSENT, State.REFUSED) if p.fits_nowhere]
        if nowhere and not (reach and same_sizes(old, new)):
            affected += nowhere
        turns = CooperativeYield(self._clock.now)
        for p in affected:
            if turns.is_due:  # the first slice at once, the rest when others had their turn
                self._controller.add(p.key)
            else:
                self._notify(p.key, e.SlurmSnapshotChanged(), "nodes")
